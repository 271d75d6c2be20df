"""Names that this process has found before: it asks the daemon again only when one was given up."""

import pytest
import support

import ray
from ray._private import names

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def asked(monkeypatch):
    """The names that the daemon was asked for."""
    found = []
    ask = names._core.find_actor

    class Core:
        def __getattr__(self, name):
            return getattr(ray._core, name)

        def find_actor(self, space, name):
            found.append(name)
            return ask(space, name)

    monkeypatch.setattr(names, "_core", Core())
    return found


def test_the_maker_need_not_ask(asked):
    actor = support.Counter.options(name="mine").remote()
    assert ray.get_actor("mine") == actor
    assert ray.get(ray.get_actor("mine").add.remote()) == 1
    assert asked == []


def test_what_is_held_is_found_once(asked):
    @ray.remote
    class Maker:
        def make(self):
            self.actor = support.Counter.options(name="other").remote()

    maker = Maker.remote()
    ray.get(maker.make.remote())
    kept = ray.get_actor("other")
    assert ray.get_actor("other") == kept and asked == ["other"]
    del kept
    assert ray.get(ray.get_actor("other").add.remote()) == 1 and asked == ["other"] * 2


def test_a_name_that_goes_to_another(asked):
    first = support.Counter.options(name="taken").remote()
    ray.get(first.add.remote())
    ray.kill(first)
    assert support.wait_until(lambda: names.find("taken") is None)
    second = support.Counter.options(name="taken").remote()
    assert ray.get_actor("taken") == second != first


def test_a_name_that_goes_to_anothers():
    """Another process has it next: the old handle, which is still there, is not what is found."""
    first = support.Counter.options(name="passed on").remote()
    ray.get(first.add.remote())
    ray.kill(first)

    @ray.remote
    class Maker:
        def make(self):
            options = {"name": "passed on", "get_if_exists": True}
            self.actor = support.Counter.options(**options).remote()
            return ray.get(self.actor.add.remote())

    maker = Maker.options(max_task_retries=-1).remote()
    made = maker.make.options(retry_exceptions=True).remote()
    assert ray.get(made, timeout=40) == 1
    found = ray.get_actor("passed on")
    assert found != first and ray.get(found.add.remote()) == 2


def test_an_actor_that_nobody_holds_ends(asked):
    actor = support.Counter.options(name="let go").remote()
    ray.get(actor.add.remote())
    assert ray.get_actor("let go") == actor
    del actor
    assert support.wait_until(lambda: names.find("let go") is None)


def test_another_session_knows_nothing():
    actor = support.Counter.options(name="of the first").remote()
    ray.get(actor.add.remote())
    ray.shutdown()
    ray.init(num_cpus=4)
    with pytest.raises(ValueError, match="of the first"):
        ray.get_actor("of the first")
    del actor
