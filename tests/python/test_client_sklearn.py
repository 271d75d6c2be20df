"""scikit-learn on joblib's backend "ray"."""

import os

import pytest

pytest.importorskip("sklearn")

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ray.util.joblib import register_ray

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def backend():
    register_ray()
    with joblib.parallel_config(backend="ray", n_jobs=4):
        yield


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


class WorkerTeller(ClassifierMixin, BaseEstimator):
    """Its score is the process in which it was computed."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def score(self, X, y):
        return os.getpid()


def serially(work):
    with joblib.parallel_config(backend="sequential"):
        return work()


def test_grid_search(digits):
    def search():
        grid = {"svc__C": [0.1, 1, 10], "svc__gamma": [1e-3, 1e-2]}
        model = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3)
        return model.fit(*digits)

    found, expected = search(), serially(search)
    assert found.best_params_ == expected.best_params_
    np.testing.assert_array_equal(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )
    assert found.score(*digits) == expected.score(*digits)


def test_cross_val_score(digits):
    def scores():
        return cross_val_score(SVC(gamma=0.001), *digits, cv=5)

    np.testing.assert_array_equal(scores(), serially(scores))


def test_it_is_computed_in_workers(digits):
    scores = cross_val_score(WorkerTeller(), *digits, cv=8)
    assert os.getpid() not in scores


def test_a_forest_inside_of_a_search(digits):
    def search():
        forest = RandomForestClassifier(n_estimators=20, random_state=0, n_jobs=2)
        return GridSearchCV(forest, {"max_depth": [3, 6]}, cv=2).fit(*digits).cv_results_

    np.testing.assert_array_equal(search()["mean_test_score"], serially(search)["mean_test_score"])


def test_an_error_in_a_fit_is_told(digits):
    with pytest.raises(ValueError, match="All the 2 fits failed"):
        GridSearchCV(SVC(), {"C": [-1.0]}, cv=2).fit(*digits)
