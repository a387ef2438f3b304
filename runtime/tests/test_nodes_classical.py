"""The classical nodes against scikit-learn on the iris table."""
import sys

import pytest

from cdui.node import Context, MissingPackage, call, fill_params

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from sklearn import ensemble, linear_model, neighbors, neural_network, svm, tree  # noqa: E402
from sklearn.datasets import load_iris  # noqa: E402

from cdui.nodes import classical  # noqa: E402


def run(node, inputs=None, context=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, context or Context())


X, CLASSES = load_iris(return_X_y=True)
Y = [["setosa", "versicolor", "virginica"][n] for n in CLASSES]
TABLE = {"x_train": torch.tensor(X[::2]), "y_train": Y[::2], "x_query": torch.tensor(X[1::2])}


@pytest.mark.parametrize("node, params, wanted", [
    (classical.KNN, {"weights": "distance", "metric": "cosine"}, neighbors.KNeighborsClassifier(5, weights="distance", metric="cosine")),
    (classical.DecisionTreeClassifier, {"max_depth": 0, "criterion": "entropy"}, tree.DecisionTreeClassifier(criterion="entropy", random_state=42)),
    (classical.RandomForestClassifier, {"n_estimators": 7}, ensemble.RandomForestClassifier(7, random_state=0)),
    (classical.SVMClassifier, {"gamma": "0.5"}, svm.SVC(gamma=0.5)),
    (classical.LogisticRegression, {}, linear_model.LogisticRegression(max_iter=200)),
    (classical.LogisticRegression, {"penalty": "l1", "max_iter": 2000}, linear_model.LogisticRegression(penalty="l1", solver="saga", max_iter=2000, random_state=0)),
    (classical.MLPClassifier, {"hidden_sizes": "4", "activation": "tanh", "max_iter": 300},
     neural_network.MLPClassifier((4,), activation="tanh", max_iter=300, learning_rate_init=0.01, random_state=42)),
], ids=lambda value: getattr(value, "NODE_NAME", ""))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifiers_are_scikit_learns(node, params, wanted):
    """Proves B.3."""
    got = run(node, TABLE, **params)
    wanted.fit(X[::2], Y[::2])
    assert got["predictions"] == wanted.predict(X[1::2]).tolist()
    assert got["classes"] == ["setosa", "versicolor", "virginica"]
    assert set(got) == {port.name for port in node.outputs()}
    if "probabilities" in got:
        assert torch.allclose(got["probabilities"], torch.tensor(wanted.predict_proba(X[1::2])).float())


def test_no_penalty_is_no_penalty():
    got = run(classical.LogisticRegression, TABLE, penalty="none", max_iter=3000)
    wanted = linear_model.LogisticRegression(C=1e12, max_iter=3000).fit(X[::2], Y[::2])
    assert torch.allclose(got["coef"], torch.tensor(wanted.coef_).float()) and got["coef"].abs().max() > 5


def test_labels_may_be_numbers_and_tensors():
    got = run(classical.KNN, {**TABLE, "y_train": torch.tensor(CLASSES[::2])})
    assert got["classes"] == [0, 1, 2] and type(got["predictions"][0]) is int
    assert run(classical.KNN, {**TABLE, "y_train": list(torch.tensor(CLASSES[::2]))})["classes"] == [0, 1, 2]


def test_tree_can_be_read():
    got = run(classical.DecisionTreeClassifier, TABLE, max_depth=1)
    assert "class: setosa" in got["tree_text"] and got["feature_importances"].sum() == pytest.approx(1)


def test_linear_regression():
    """Proves B.3."""
    x, y = torch.randn(20, 3), torch.randn(20)
    got = run(classical.LinearRegression, {"x_train": x, "y_train": y, "x_query": x[:4]})
    solved = torch.linalg.lstsq(torch.cat([x, torch.ones(20, 1)], 1).double(), y.double().unsqueeze(1)).solution.squeeze()
    assert got["coef"].tolist() == pytest.approx(solved[:3].tolist(), rel=1e-4) and got["intercept"] == pytest.approx(solved[3].item())
    assert got["predictions"].shape == (4,)
    two = run(classical.LinearRegression, {"x_train": x, "y_train": torch.stack([y, 2 * y], 1), "x_query": x}, fit_intercept=False)
    assert two["coef"].shape == (2, 3) and two["predictions"].shape == (20, 2) and two["intercept"] == 0.0


def test_accuracy_compares_text():
    """Proves B.5."""
    assert run(classical.Accuracy, {"predictions": [1, "a", 2.0], "labels": ["1", "a", "2"]}) == {"accuracy": 2 / 3, "correct": 2, "total": 3}
    assert run(classical.Accuracy, {"predictions": torch.tensor([1, 2]), "labels": ["1", "3"]})["correct"] == 1
    assert run(classical.Accuracy, {"predictions": [], "labels": []})["accuracy"] == 0
    with pytest.raises(ValueError, match="1 predictions and 2 labels"):
        run(classical.Accuracy, {"predictions": [1], "labels": [1, 2]})


@pytest.mark.parametrize("node, inputs, params, message", [
    (classical.KNN, {}, {"n_neighbors": 100}, "n_neighbors is 100 and there are 75 rows"),
    (classical.KNN, {"y_train": ["a"]}, {}, "x_train has 75 rows and y_train 1 labels"),
    (classical.KNN, {"x_query": torch.ones(2, 3)}, {}, "4 columns and x_query 3"),
    (classical.KNN, {"x_query": torch.ones(2, 3, 1)}, {}, r"x_query has the shape \[2, 3, 1\]"),
    (classical.SVMClassifier, {}, {"gamma": "wide"}, "gamma .* must be numbers"),
    (classical.SVMClassifier, {}, {"C": 0.0}, "C is 0.0: choose a number above 0"),
    (classical.LogisticRegression, {}, {"penalty": "l3"}, "penalty is 'l3'"),
    (classical.MLPClassifier, {}, {"hidden_sizes": "4,0"}, "at least one unit"),
])
def test_what_is_wrong_is_said(node, inputs, params, message):
    with pytest.raises(ValueError, match=message):
        run(node, {**TABLE, **inputs}, **params)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.neighbors", None)
    with pytest.raises(MissingPackage, match="the package scikit-learn is needed for KNN"):
        run(classical.KNN, TABLE)
