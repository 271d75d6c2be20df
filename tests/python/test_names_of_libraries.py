"""Names that libraries use beside the API: they work, or are refused with a word."""

import importlib
import json
import logging
import os

import pytest
import support

import ray
from ray.job_config import JobConfig


@pytest.mark.usefixtures("session")
def test_global_worker_in_a_driver_and_in_an_actor():
    worker = ray._private.worker.global_worker
    context = ray.get_runtime_context()
    assert worker.connected and worker.mode == ray.SCRIPT_MODE
    assert worker.current_job_id == context.job_id and worker.actor_id is None
    assert worker.current_node_id == context.node_id
    assert worker.worker_id.hex() == context.get_worker_id()
    assert worker.node.unique_id == context.get_node_id() and worker.node.is_head()
    assert worker.node.get_session_dir_path().endswith(worker.node.session_name)
    assert worker.node.address_info["session_dir"] == worker.node.get_session_dir_path()
    assert ray._private.worker._global_node.webui_url is None
    assert worker.node_ip_address.count(".") == 3 and worker.runtime_env == {}
    assert worker.get_accelerator_ids_for_accelerator_resource("GPU") == []

    @ray.remote
    class Actor:
        def look(self):
            from ray._private.worker import global_worker

            return global_worker.mode, global_worker.actor_id, global_worker.current_task_id

    mode, actor_id, task_id = ray.get(Actor.remote().look.remote())
    assert mode == ray.WORKER_MODE and actor_id is not None and task_id is not None
    with pytest.raises(AttributeError, match="not in Mobula yet"):
        worker.core_worker  # noqa: B018


def test_global_worker_without_a_session():
    worker = ray._private.worker.global_worker
    assert not worker.connected and worker.mode is None and worker.node is None
    assert ray._private.worker._global_node is None
    with pytest.raises(AttributeError):
        ray._private.worker.no_such_thing  # noqa: B018


@ray.remote
class Clerk:
    def pid(self):
        return os.getpid()


@pytest.mark.usefixtures("session")
def test_the_state_of_an_actor():
    clerk = Clerk.options(num_cpus=0).remote()
    pid = ray.get(clerk.pid.remote())
    known = ray._private.state.actors(clerk._actor_id.hex())
    (node,) = ray.nodes()
    assert known == {
        "ActorID": clerk._actor_id.hex(),
        "ActorClassName": "Clerk",
        "State": "ALIVE",
        "Pid": pid,
        "Address": {"NodeID": node["NodeID"], "IPAddress": node["NodeManagerAddress"]},
        "NumRestarts": 0,
        "DeathCause": "",
    }
    ray.kill(clerk)
    assert support.wait_until(
        lambda: ray._private.state.actors(clerk._actor_id.hex())["State"] == "DEAD"
    )
    assert "ray.kill" in ray._private.state.actors(clerk._actor_id.hex())["DeathCause"]


@pytest.mark.usefixtures("session")
def test_the_states_of_all_actors():
    clerk, late = Clerk.options(num_cpus=0).remote(), Clerk.options(num_cpus=100).remote()
    ray.get(clerk.pid.remote())
    clerk_id, late_id = clerk._actor_id.hex(), late._actor_id.hex()
    actors = ray._private.state.actors
    assert {clerk_id, late_id} <= set(actors())
    assert clerk_id in actors(actor_state_name="ALIVE")
    assert late_id not in actors(actor_state_name="ALIVE")
    assert actors(actor_state_name="PENDING_CREATION")[late_id]["Pid"] == 0
    assert actors("00" * 20) == {}
    with pytest.raises(ValueError, match="ALIVE.*'ASLEEP'"):
        actors(actor_state_name="ASLEEP")


@pytest.mark.usefixtures("session")
def test_small_names():
    assert ray._private.services.get_node_ip_address() == ray.util.get_node_ip_address()
    (resources,) = ray._private.state.available_resources_per_node().values()
    assert resources["CPU"] == 2 and resources["node:__internal_head__"] == 1
    from ray._private import ray_constants

    assert ray_constants.REDIS_DEFAULT_PASSWORD == ray.ray_constants.REDIS_DEFAULT_PASSWORD
    assert ray_constants.env_bool("NO_SUCH_VARIABLE", True) is True
    from ray.util.annotations import Deprecated, DeveloperAPI, PublicAPI

    @PublicAPI
    @DeveloperAPI(stability="beta")
    @Deprecated
    def marked():
        return 1

    assert marked() == 1


def test_constants_from_the_environment(monkeypatch):
    from ray.ray_constants import env_bool, env_float, env_integer

    monkeypatch.setenv("A_VARIABLE", "3")
    assert env_integer("A_VARIABLE", 1) == 3 and env_float("A_VARIABLE", 1) == 3.0
    monkeypatch.setenv("A_VARIABLE", "true")
    assert env_bool("A_VARIABLE", False) and env_integer("A_VARIABLE", 1) == 1
    assert env_float("A_VARIABLE", 1.5) == 1.5


@pytest.mark.usefixtures("session")
def test_there_is_no_client():
    from ray.util.client.common import ClientActorHandle, ClientObjectRef

    assert not isinstance(ray.put(1), ClientObjectRef)
    assert ray.util.client.ray.is_connected() is False
    with pytest.raises(NotImplementedError, match="no client"):
        ClientActorHandle()


def test_job_config(start):
    config = JobConfig(ray_namespace="of the job")
    assert JobConfig.from_json(json.loads(config.to_json()) | {"metadata": {}}).ray_namespace
    start(job_config=config, num_cpus=1)
    assert ray.get_runtime_context().namespace == "of the job"


def test_job_config_that_can_not_be(start):
    config = JobConfig()
    config.set_metadata("a", "b")
    with pytest.raises(NotImplementedError, match="metadata of a JobConfig"):
        start(job_config=config)
    with pytest.raises(NotImplementedError, match="default_actor_lifetime"):
        start(job_config=JobConfig(default_actor_lifetime="detached"))
    with pytest.raises(ValueError, match="default_actor_lifetime"):
        JobConfig(default_actor_lifetime="for ever")
    with pytest.raises(TypeError, match="JobConfig"):
        start(job_config=1)


@pytest.mark.usefixtures("session")
def test_request_resources_is_shown(capsys):
    from ray.autoscaler.sdk import request_resources
    from ray.scripts import status

    def shown():
        folder = ray._private.worker.global_worker.node.get_session_dir_path()
        assert status.main(["--address", folder]) == 0
        return capsys.readouterr().out

    assert "(no resource demands)" in shown()
    request_resources(num_cpus=3, bundles=[{"GPU": 1}, {"GPU": 1, "CPU": 2}])
    out = shown()
    assert "{'CPU': 1}: 3+ from request_resources()" in out
    assert "{'GPU': 1}: 1+ from request_resources()" in out
    request_resources()
    assert "(no resource demands)" in shown()
    for wrong in ({"num_cpus": -1}, {"bundles": [1]}, {"bundles": [{"CPU": "x"}]}):
        with pytest.raises(TypeError):
            request_resources(**wrong)


@pytest.mark.parametrize(
    "name, words",
    [
        ("ray.data.extensions", "core only"),
        ("ray.workflow", "core only"),
        ("ray.client_builder", "no client"),
        ("ray.util.tracing", "ray.timeline"),
        ("ray.util.rpdb", "ray replay"),
        ("ray.experimental.channel", "shared memory"),
        ("ray.util.tpu", "resource of your own"),
    ],
)
def test_modules_that_will_not_come(name, words):
    with pytest.raises(ImportError, match=f"{name} is not in Mobula: .*{words}"):
        importlib.import_module(name)


def test_ray_data_can_be_imported_but_not_used():
    from ray.data import from_pandas_refs

    with pytest.raises(NotImplementedError, match="from_pandas_refs is not in Mobula: .*core only"):
        from_pandas_refs([])
    with pytest.raises(ImportError, match="ray.data.from_arrow_refs is not in Mobula: .*core only"):
        from ray.data import from_arrow_refs  # noqa: F401
    with pytest.raises(AttributeError, match="ray.data.range is not in Mobula: .*core only"):
        ray.data.range(10)


@pytest.mark.parametrize(
    "name, words",
    [
        ("client", "no client"),
        ("java_function", "C"),
        ("java_actor_class", "C"),
        ("cpp_function", "C"),
    ],
)
def test_names_that_will_not_come(name, words):
    with pytest.raises(AttributeError, match=f"ray.{name} is not in Mobula: .*{words}"):
        getattr(ray, name)


@pytest.mark.usefixtures("session")
def test_a_breakpoint_in_a_task_says_what_to_do():
    @ray.remote
    def stop():
        breakpoint()

    with pytest.raises(RuntimeError, match="ray replay"):
        ray.get(stop.remote())


def test_the_logger_has_a_name_in_the_package():
    from ray import logger  # as xgboost_ray asks for it

    assert logger is logging.getLogger("ray")
