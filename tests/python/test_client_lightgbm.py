"""LightGBM on actors: each holds its rows, and they train one model over LightGBM's own sockets."""

import socket

import pytest

pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")

import lightgbm
import numpy as np
from sklearn.datasets import make_classification

import ray

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(4_000, 12, n_informative=6, random_state=3)
    return X, y


@ray.remote
class Trainer:
    def __init__(self, X, y):
        self.X, self.y = X, y
        self._kept = None

    def address(self):
        """A port that is free now. The socket that found it is kept until training begins."""
        self._kept = socket.socket()
        self._kept.bind(("", 0))
        return f"{ray.util.get_node_ip_address()}:{self._kept.getsockname()[1]}"

    def train(self, parameters, machines=None):
        if machines is not None:
            port = int(self._kept.getsockname()[1])
            self._kept.close()
            parameters = {
                **parameters,
                "machines": ",".join(machines),
                "num_machines": len(machines),
                "local_listen_port": port,
                "tree_learner": "data",
                "pre_partition": True,
            }
        data = lightgbm.Dataset(self.X, self.y)
        return lightgbm.train(parameters, data, num_boost_round=30).model_to_string()


PARAMETERS = {"objective": "binary", "num_leaves": 15, "verbose": -1, "num_threads": 1, "seed": 1}


def right(model, X, y):
    return ((lightgbm.Booster(model_str=model).predict(X) > 0.5) == y).mean()


def test_a_model_trained_by_two_actors_together(rows):
    X, y = rows
    trainers = [Trainer.remote(X[i:3_000:2], y[i:3_000:2]) for i in (0, 1)]
    machines = ray.get([trainer.address.remote() for trainer in trainers])
    models = ray.get([trainer.train.remote(PARAMETERS, machines) for trainer in trainers])
    trees = [model.partition("parameters:")[0] for model in models]
    assert trees[0] == trees[1]  # one model, not two
    assert right(models[0], X[3_000:], y[3_000:]) > 0.85


def test_parameters_tried_side_by_side_on_shared_rows(rows):
    X, y = rows
    shared = ray.put(X[:3_000]), ray.put(y[:3_000])
    trainers = [Trainer.remote(*shared) for _ in range(3)]
    tried = [{**PARAMETERS, "num_leaves": leaves} for leaves in (4, 15, 40)]
    found = ray.get([t.train.remote(p) for t, p in zip(trainers, tried)])
    for model, parameters in zip(found, tried):
        data = lightgbm.Dataset(X[:3_000], y[:3_000])
        here = lightgbm.train(parameters, data, num_boost_round=30)
        np.testing.assert_allclose(
            lightgbm.Booster(model_str=model).predict(X[3_000:]), here.predict(X[3_000:])
        )


def test_a_trained_model_travels(rows):
    X, y = rows
    model = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1).fit(X, y)

    @ray.remote
    def predict(model, X):
        return model.predict_proba(X)

    np.testing.assert_array_equal(
        ray.get(predict.remote(ray.put(model), X)), model.predict_proba(X)
    )
