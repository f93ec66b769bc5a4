"""gradus.sklearn passes scikit-learn's own checks (where it is installed), and finds what closed forms and scikit-learn find."""
import warnings

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from gradus.sklearn import GradusClassifier, GradusRegressor  # noqa: E402


def expected(estimator):
    """Batches of weighted rows are other ones than those of repeated rows."""
    return {"check_sample_weight_equivalence_on_dense_data": "batches"} if estimator.batch_size else {}


@parametrize_with_checks([GradusClassifier(), GradusRegressor(), GradusRegressor(hidden=(8,), activation="tanh"),
                          GradusClassifier(hidden=(4, 4), activation="tanh"), GradusRegressor(batch_size=8, max_steps=50)],
                         expected_failed_checks=expected)
def test_sklearns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
        check(estimator)


def data():
    x = np.arange(24.0).reshape(12, 2) % 7 + 0.1 * np.cos(np.arange(24)).reshape(12, 2)
    return x, (x[:, 0] * 2 - x[:, 1] + 1 + np.sin(np.arange(12)) > 3).astype(int)


def test_a_linear_regressor_is_least_squares():
    x, _ = data()
    y = x @ [2.0, -1.0] + 0.5 + np.sin(np.arange(12))
    exact = np.linalg.lstsq(np.column_stack([x, np.ones(12)]), y, rcond=None)[0]
    found = GradusRegressor(alpha=0.0, tol=1e-10).fit(x, y).predict(x)
    assert np.allclose(found, np.column_stack([x, np.ones(12)]) @ exact, atol=1e-7)


def test_it_works_in_pipelines_grids_and_processes():
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = data()
    grid = GridSearchCV(make_pipeline(StandardScaler(), GradusClassifier()), {"gradusclassifier__alpha": [1e-3, 1.0]}, cv=2, n_jobs=2).fit(x, y)
    assert grid.best_score_ > 0.5 and grid.predict_proba(x).shape == (12, 2)
    assert cross_val_score(GradusClassifier(hidden=(4,), random_state=0), x, y, cv=2).mean() > 0.4


def test_batches_and_chains():
    x, y = data()
    model = GradusClassifier(batch_size=4, max_steps=200, chain="adam | lr(0.05)", random_state=1).fit(x, y)
    assert model.score(x, y) > 0.8 and model.n_iter_ == 200
    with pytest.raises(ValueError, match="activation is one of"):
        GradusClassifier(activation="step").fit(x, y)
