"""What an actor's error says, and exceptions that an actor keeps."""

import os

import pytest
import support

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayTaskError

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
class Fragile:
    def __init__(self, how="good"):
        if how == "raise":
            raise ValueError("no life")
        if how == "crash":
            os._exit(3)

    def pid(self):
        return os.getpid()

    def crash(self):
        os._exit(4)


def actor_failure(ref):
    with pytest.raises(ActorDiedError) as info:
        ray.get(ref, timeout=40)
    return info.value


def test_what_an_actors_error_says():
    import pickle

    actor = Fragile.remote()
    pid = ray.get(actor.pid.remote())
    killed = Fragile.remote()
    ray.get(killed.pid.remote())
    ray.kill(killed)
    for handle, method, cause in (
        (actor, "crash", "it died while or before it ran crash: it exited with code 4"),
        (actor, "pid", "it exited with code 4"),
        (killed, "pid", "it was killed by ray.kill"),
    ):
        error = actor_failure(getattr(handle, method).remote())
        assert error.actor_id == handle._actor_id.hex()
        assert (error.actor_init_failed, error.preempted) == (False, False)
        assert error.error_msg == str(error) and str(error).endswith(cause)
        assert "class_name: Fragile" in str(error) and f"actor_id: {error.actor_id}" in str(error)
        assert handle is killed or f"\tpid: {pid}\n" in str(error)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is ActorDiedError and again.__dict__ == error.__dict__


@pytest.mark.parametrize("how, cause", [("raise", "ValueError: no life"), ("crash", "code 3")])
def test_what_the_error_of_an_actor_that_was_never_made_says(how, cause):
    actor = Fragile.remote(how)
    for _ in range(2):
        error = actor_failure(actor.pid.remote())
        assert error.actor_init_failed and error.actor_id == actor._actor_id.hex()
        assert error.error_msg == str(error) and cause in str(error)


def test_actor_errors_that_are_made_by_hand():
    error = RayActorError()
    assert (error.actor_id, error.actor_init_failed, error.preempted) == (None, False, False)
    assert str(error) == error.error_msg != ""
    assert str(RayActorError(actor_id="1f", error_msg="text")) == "text"
    assert str(ActorDiedError()) == ActorDiedError.BASE_ERROR_MSG
    died = ActorDiedError(RayTaskError("f", "the story"))
    assert died.actor_init_failed and str(died).endswith("the story")


class KeepsErrors:
    """Raises, and keeps what it raised."""

    def __init__(self):
        self.kept = None

    def fail(self):
        held = support.Tracked()  # noqa: F841
        error = ValueError("kept")
        self.kept = error
        raise error

    def fail_with_cause(self):
        try:
            raise KeyError("cause")
        except KeyError as error:
            self.kept = error
            raise ValueError("effect") from error

    def fail_and_forget(self):
        held = support.Tracked()  # noqa: F841
        error = ValueError("forgotten")
        raise error

    def frames(self):
        found, at = [], self.kept.__traceback__
        while at is not None:
            found.append(at.tb_frame.f_code.co_name)
            at = at.tb_next
        return found

    def again(self):
        raise self.kept

    def give(self):
        return self.kept

    def tracked(self):
        return support.Tracked.alive


class AsyncKeepsErrors(KeepsErrors):
    async def wait(self):
        pass


@pytest.mark.parametrize("kind", ["plain", "threads", "async"])
def test_an_exception_that_an_actor_keeps_is_whole(kind):
    if kind == "async":
        actor = ray.remote(AsyncKeepsErrors).remote()
    else:
        actor = ray.remote(KeepsErrors).options(max_concurrency=1 + (kind == "threads")).remote()
    for method in ("fail", "fail_with_cause"):
        with pytest.raises(ValueError):
            ray.get(getattr(actor, method).remote())
        assert method in ray.get(actor.frames.remote())
    assert type(ray.get(actor.give.remote())) is KeyError
    with pytest.raises(KeyError) as info:
        ray.get(actor.again.remote())
    assert "in fail_with_cause" in str(info.value) and "in again" in str(info.value)


@pytest.mark.parametrize("kind", ["plain", "threads", "async"])
def test_an_exception_that_nobody_keeps_frees_its_frames(kind):
    if kind == "async":
        actor = ray.remote(AsyncKeepsErrors).remote()
    else:
        actor = ray.remote(KeepsErrors).options(max_concurrency=1 + (kind == "threads")).remote()
    for _ in range(3):
        with pytest.raises(ValueError):
            ray.get(actor.fail_and_forget.remote())
        assert ray.get(actor.tracked.remote()) == 0
    with pytest.raises(ValueError):
        ray.get(actor.fail.remote())
    assert ray.get(actor.tracked.remote()) == 1
