"""The chaos of a cluster: four nodes on this machine, with drivers on three of them.

Besides what is done to a single node (chaos.py), daemons of nodes are killed with everybody at
work, also the head's, and others take their places when all of the dead node's jobs is gone
everywhere. They are stopped for a while, too short for the others to take them for dead. Redis is
killed, and started again after a while. Not all at once: who dies while Redis is away is known
after 90 s only (docs/cluster.md).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

from chaos import KEPT, WEIGHTS, Chaos
from crew import Driver
from travel import NODES, place_of

from node import Node, await_true, described, is_alive, named_memory, with_mark
from ray._private import redis_server

SEATS = 3  # nodes with a driver
CPUS = 2
MOST_FALLEN = 2  # nodes that are dead at a time
LONGEST_AWAY = 3.0  # seconds of Redis
LINKS = 4  # sockets for each other node: both ways, for messages and for chunks of values
QUIET = 5.0  # seconds between what is done to Redis and to a daemon
NOTICED = 10.0  # seconds until all others know of a death: 5 on a quiet machine
EVER = 1 << 62  # ns


class Fallen:
    """A node whose daemon was killed."""

    def __init__(self, place: int, node: Node, life: int, drivers: list[Driver]) -> None:
        self.place, self.node, self.life, self.drivers = place, node, life, drivers
        self.begin, self.at = time.monotonic(), time.monotonic_ns()

    def left(self) -> list[int]:
        """What is left of its workers, and of its drivers' on other nodes."""
        mine = {driver.pid for driver in self.drivers}
        marks = [driver.mark for driver in self.drivers]
        guests = {pid for mark in marks for pid in with_mark(mark)} - mine
        return sorted(guests.union(filter(is_alive, self.node.seen)))


class Spread(Chaos):
    weights = {**WEIGHTS, "daemon": 3, "halt": 5, "redis": 3}
    # An object that was elsewhere keeps that holder, as long as a failed task keeps it.
    kept = (*KEPT, "HELD_BY_OTHER_NODES")
    lossy = True

    def __init__(self, root: str, options) -> None:
        super().__init__(root, options)
        self.nodes: dict[int, Node] = {}  # those that live, by place
        self.lives: dict[int, int] = {}
        self.fallen: list[Fallen] = []
        self.redis_due = 0.0  # when it is started again; 0: it runs
        self.quiet = 0.0  # when something was done to Redis, or a node joined
        self.looked = 0.0

    # Nodes.

    def live(self) -> None:
        """One cluster, from its start to its end."""
        for place in range(NODES):
            self.start_at(place)
        for place in range(SEATS):
            if not any(driver.place == str(place) for driver in self.drivers):
                self.start_driver(str(place))
        self.strike_all()
        if not self.wrong:
            self.end_calmly()

    def start_at(self, place: int) -> None:
        """A node takes this place, in the cluster of those that live."""
        self.killer.go_on(everybody=True)
        others = [node.address for node in self.nodes.values()]
        first = [f"--address={others[0]}"] if others else ["--head", "--port=0"]
        own = f'--resources={{"{place_of(place)}": 1}}'
        node = Node(self.root, *first, "--node-ip-address=127.0.0.1", own, cpus=CPUS)
        node.seen = set(node.children())
        node.descriptors["socket"] += LINKS * NODES
        self.nodes[place], self.lives[place] = node, self.life
        self.announce(node, str(place))
        self.say(f"place {place} is taken by {node.address}")
        self.life += 1
        self.quiet = time.monotonic()

    def node_of(self, driver: Driver) -> Node:
        return self.nodes[int(driver.place)]

    def drivers_at(self, place: int) -> list[Driver]:
        return [driver for driver in self.drivers if driver.place == str(place)]

    # What is done to them.

    def strike(self) -> None:
        kind = self.rng.choices([*self.weights], [*self.weights.values()])[0]
        place = self.rng.choice(sorted(self.nodes))
        node = self.nodes[place]
        if kind == "driver":
            self.killer.go_on(everybody=True)  # its node is asked what is left
            for driver in self.drivers_at(place):
                self.kill_driver(driver)
        elif kind == "stop":
            drivers = [driver.pid for driver in self.drivers_at(place)]
            self.killer.stop(node.children() + drivers)
        elif kind == "halt":
            if self.is_buried(node):
                self.killer.stop([node.pid])
        elif kind == "daemon":
            self.kill_daemon(place)
        elif kind == "redis":
            self.kill_redis()
        else:
            self.killer.kill_child(node, kind)

    def is_quiet(self) -> bool:
        return not self.redis_due and time.monotonic() > self.quiet + QUIET

    def is_buried(self, node: Node) -> bool:
        """Whether all that its killed drivers had is gone."""
        return all(funeral.node is not node for funeral in self.funerals)

    def kill_daemon(self, place: int) -> None:
        """It is stopped first, so that no process of it begins anything that is not known here."""
        node = self.nodes[place]
        busy = not self.is_buried(node)
        if busy or len(self.fallen) == MOST_FALLEN or not self.is_quiet():
            return
        os.kill(node.pid, signal.SIGSTOP)
        node.seen.update(node.children())
        for pid in node.seen:
            self.killer.times[pid] = EVER
        self.killer.kill(node.pid, "daemon")
        self.say(f"the daemon of place {place} was killed")
        self.killer.stopped.pop(node.pid, None)
        del self.nodes[place]
        self.fallen.append(Fallen(place, node, self.lives[place], self.drivers_at(place)))

    def kill_redis(self) -> None:
        if self.fallen or not self.is_quiet():
            return
        for server in redis_server.servers():
            self.killer.kill(server.pid(), "redis")
        self.say("Redis was killed")
        self.redis_due = time.monotonic() + self.rng.uniform(0.1, LONGEST_AWAY)

    def look(self) -> None:
        for place, node in self.nodes.items():
            if not is_alive(node.pid):
                self.fail(f"the daemon of place {place} died, and nobody had killed it")
                return
        self.look_at_drivers()
        if time.monotonic() < self.looked + 0.1:
            return
        for node in self.nodes.values():
            node.seen.update(node.children())
        if self.redis_due and time.monotonic() > self.redis_due:
            self.start_redis()
        for fallen in list(self.fallen):
            self.look_at_fallen(fallen)
        self.looked = time.monotonic()

    def start_redis(self) -> None:
        for server in redis_server.servers():
            server.run(redis_server.program())
        self.say("Redis is back")
        self.redis_due, self.quiet = 0.0, time.monotonic()

    def look_at_fallen(self, fallen: Fallen) -> None:
        """When all of it is over, another node takes its place."""
        deaf = [driver for driver in fallen.drivers if not driver.has_ended(fallen.life)]
        left = [] if deaf else fallen.left()
        took = time.monotonic() - fallen.begin
        if took > NOTICED + self.gone:
            for driver in deaf:
                self.fail(f"{driver.name} did not notice the death: {self.state(driver)}")
            for pid in left:
                self.fail(f"{took:.1f} s after its node's daemon there is left: {described(pid)}")
        elif deaf or left:
            return
        self.slowest["orphan"] = max(self.slowest["orphan"], took)
        self.counts["nodes killed"] += 1
        self.fallen.remove(fallen)
        for driver in fallen.drivers:
            notice = (driver.was_told(fallen.life, "D") - fallen.at) / 1e9
            self.slowest["notice"] = max(self.slowest["notice"], notice)
            self.judge(driver, complete=False)
        if not self.wrong:
            self.start_at(fallen.place)

    # How it ends.

    def end_calmly(self) -> None:
        """With nobody at work: what is left?"""
        self.killer.go_on(everybody=True)
        while (self.funerals or self.fallen or self.redis_due) and not self.wrong:
            self.look()
            time.sleep(0.02)
        if self.wrong:
            return
        for life in self.lives.values():
            open(f"{self.root}/calm-{life}", "w").close()
        for driver in self.drivers:
            if not self.await_calm(driver, self.lives[int(driver.place)]):
                return
        for node in self.nodes.values():
            self.memory.append(node.memory())
            self.look_at_rest(node)
        if self.wrong:
            return
        for node in reversed(self.nodes.values()):
            node.stop()
        left = node.folders() + named_memory()
        if not await_true(lambda: not redis_server.servers(), self.gone):
            left += [server.folder for server in redis_server.servers()]
        if left:
            self.fail(f"after ray stop there are left: {left}")
        self.counts["nodes ended in peace"] += len(self.nodes)
        self.nodes.clear()

    def stop_all(self) -> None:
        ray = [str(node.ray) for node in self.nodes.values()][:1]
        if ray:
            subprocess.run([*ray, "stop", "--force"], stdout=subprocess.DEVNULL, timeout=120)

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.begin:8.1f} s  {text}", flush=True)

    def fail(self, text: str) -> None:
        """With what the nodes say of each other."""
        super().fail(text)
        for place, node in self.nodes.items():
            with open(f"{node.folder}/cluster.log", errors="replace") as log:
                for line in log.read().splitlines()[-5:]:
                    self.say(f"place {place}: {line}")

    def lines(self) -> list[str]:
        found = super().lines()
        found.insert(2, f"Redis killed, and started again: {self.killer.counts['redis']} times")
        return found
