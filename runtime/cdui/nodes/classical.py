"""Category Classical: learning on tables, with scikit-learn.

Features are ``x [rows, columns]``; labels are lists, one entry a row. The work
is done on the CPU in NumPy, whatever the run's device is.
"""

from __future__ import annotations

from typing import Any

from cdui.node import Node, Param, Port, need
from cdui.nodes import parsing

_PACKAGE = "scikit-learn"


def _array(tensor: Any, port: str) -> Any:
    """``tensor`` as a NumPy array ``[rows, columns]``; one dimension is one column."""
    values = tensor.detach().cpu()
    if values.dim() == 1:
        values = values.unsqueeze(1)
    if values.dim() != 2:
        raise ValueError(f"{port} has the shape {list(values.shape)} and must be [rows, columns]: Flatten it first")
    return values.double().numpy()


def plain(labels: Any) -> list[Any]:
    """Labels as a list of plain values, from a list (of anything) or a tensor."""
    if hasattr(labels, "tolist"):
        return labels.tolist()
    return [label.item() if hasattr(label, "item") else label for label in labels]


def _tensor(array: Any, device: str = "cpu") -> Any:
    import torch

    return torch.tensor(array, dtype=torch.float32, device=device)


class Classifier(Node):
    """What the classifiers have in common: fit on x_train and y_train, and
    predict x_query."""

    CATEGORY = "Classical"
    align_inputs = False
    WITH_PROBABILITIES = True

    @classmethod
    def inputs(cls, params=None):
        return [
            Port("x_train", "TENSOR", "[rows, columns]"),
            Port("y_train", "LIST", "the class of each row"),
            Port("x_query", "TENSOR", "[queries, columns]"),
        ]

    def build(self, params: dict[str, Any], rows: int) -> Any:
        """The unfitted estimator; ``rows`` is how many there are to learn from."""
        raise NotImplementedError(self.NODE_NAME)

    def extras(self, fitted: Any, context: Any) -> dict[str, Any]:
        """The outputs beside predictions, probabilities and classes."""
        return {}

    def execute(self, inputs, params, context):
        x, query, labels = _array(inputs["x_train"], "x_train"), _array(inputs["x_query"], "x_query"), plain(inputs["y_train"])
        if len(x) != len(labels):
            raise ValueError(f"x_train has {len(x)} rows and y_train {len(labels)} labels: they must be as many")
        if x.shape[1] != query.shape[1]:
            raise ValueError(f"x_train has {x.shape[1]} columns and x_query {query.shape[1]}: they must be the same columns")
        fitted = self.build(params, len(x)).fit(x, labels)
        result = {"predictions": fitted.predict(query).tolist(), "classes": fitted.classes_.tolist()}
        if self.WITH_PROBABILITIES:
            result["probabilities"] = _tensor(fitted.predict_proba(query), context.device)
        return {**result, **self.extras(fitted, context)}


_PROBABILITIES = Port("probabilities", "TENSOR", "[queries, classes]")
_PREDICTIONS = Port("predictions", "LIST", "the class of each query")
_CLASSES = Port("classes", "LIST", "the classes, in the order of their columns")


class KNN(Classifier):
    """Nearest neighbours vote for the class of each query."""

    NODE_NAME = "KNN"
    DESCRIPTION = "Classifies by the nearest rows."

    @classmethod
    def outputs(cls, params=None):
        return [_PREDICTIONS, _PROBABILITIES, _CLASSES]

    @classmethod
    def params(cls):
        return [
            Param("n_neighbors", "int", 5, "How many rows vote.", min_value=1),
            Param("weights", "select", "uniform", "Whether nearer rows count more.", ["uniform", "distance"]),
            Param("metric", "select", "minkowski", "What near means.", ["minkowski", "euclidean", "manhattan", "chebyshev", "cosine"]),
        ]

    def build(self, params, rows):
        neighbours = int(params["n_neighbors"])
        if neighbours > rows:
            raise ValueError(f"n_neighbors is {neighbours} and there are {rows} rows to learn from: choose a smaller one")
        return need("sklearn.neighbors", _PACKAGE, "KNN").KNeighborsClassifier(
            n_neighbors=neighbours, weights=params["weights"], metric=params["metric"]
        )


class DecisionTreeClassifier(Classifier):
    """A tree of comparisons; ``feature_importances [columns]`` sum to 1."""

    NODE_NAME = "DecisionTreeClassifier"
    DESCRIPTION = "Classifies by a tree of comparisons, which can be read."
    WITH_PROBABILITIES = False

    @classmethod
    def outputs(cls, params=None):
        return [
            _PREDICTIONS, Port("feature_importances", "TENSOR", "[columns]"),
            Port("tree_text", "STRING", "the tree as text"), _CLASSES,
        ]

    @classmethod
    def params(cls):
        return [
            Param("max_depth", "int", 5, "Most comparisons in a row; 0 for no bound.", min_value=0),
            Param("criterion", "select", "gini", "What makes a good split.", ["gini", "entropy", "log_loss"]),
            Param("random_state", "int", 42, "Seed for ties."),
        ]

    def build(self, params, rows):
        return need("sklearn.tree", _PACKAGE, "DecisionTreeClassifier").DecisionTreeClassifier(
            max_depth=int(params["max_depth"]) or None, criterion=params["criterion"], random_state=int(params["random_state"])
        )

    def extras(self, fitted, context):
        return {
            "feature_importances": _tensor(fitted.feature_importances_, context.device),
            "tree_text": need("sklearn.tree", _PACKAGE).export_text(fitted),
        }


class RandomForestClassifier(Classifier):
    """Many trees on random parts of the table vote."""

    NODE_NAME = "RandomForestClassifier"
    DESCRIPTION = "Classifies by the vote of many random trees."

    @classmethod
    def outputs(cls, params=None):
        return [_PREDICTIONS, _PROBABILITIES, _CLASSES]

    @classmethod
    def params(cls):
        return [
            Param("n_estimators", "int", 100, "How many trees.", min_value=1),
            Param("max_depth", "int", 0, "Most comparisons in a row; 0 for no bound.", min_value=0),
            Param("seed", "int", 0, "Seed of the trees."),
        ]

    def build(self, params, rows):
        return need("sklearn.ensemble", _PACKAGE, "RandomForestClassifier").RandomForestClassifier(
            n_estimators=int(params["n_estimators"]), max_depth=int(params["max_depth"]) or None, random_state=int(params["seed"])
        )


class SVMClassifier(Classifier):
    """The widest margin between classes; ``support_vectors [vectors, columns]``."""

    NODE_NAME = "SVMClassifier"
    DESCRIPTION = "Classifies by the widest margin between classes."
    WITH_PROBABILITIES = False

    @classmethod
    def outputs(cls, params=None):
        return [_PREDICTIONS, Port("support_vectors", "TENSOR", "[vectors, columns]"), _CLASSES]

    @classmethod
    def params(cls):
        return [
            Param("C", "float", 1.0, "Higher: fits the rows more closely. Above 0."),
            Param("kernel", "select", "rbf", "The shape of the boundary.", ["linear", "rbf", "poly", "sigmoid"]),
            Param("gamma", "string", "scale", "Reach of a row: scale, auto or a number."),
        ]

    def build(self, params, rows):
        gamma = str(params["gamma"]).strip()
        if gamma not in ("scale", "auto"):
            gamma = parsing.floats(gamma, "gamma (scale, auto or a number)", at_least=1)[0]
        return need("sklearn.svm", _PACKAGE, "SVMClassifier").SVC(C=_positive(params["C"], "C"), kernel=params["kernel"], gamma=gamma)

    def extras(self, fitted, context):
        return {"support_vectors": _tensor(fitted.support_vectors_, context.device)}


class LogisticRegression(Classifier):
    """A linear model of the classes' odds; ``coef [1 or classes, columns]``."""

    NODE_NAME = "LogisticRegression"
    DESCRIPTION = "Classifies by a linear model of the odds."

    @classmethod
    def outputs(cls, params=None):
        return [_PREDICTIONS, _PROBABILITIES, _CLASSES, Port("coef", "TENSOR", "[1 or classes, columns]")]

    @classmethod
    def params(cls):
        return [
            Param("C", "float", 1.0, "Lower: smaller coefficients. Above 0."),
            Param("max_iter", "int", 200, "Most steps of the solver.", min_value=1),
            Param("penalty", "select", "l2", "What is added for large coefficients.", ["l2", "l1", "none"]),
        ]

    def build(self, params, rows):
        model = need("sklearn.linear_model", _PACKAGE, "LogisticRegression").LogisticRegression
        penalty, strength = params["penalty"], _positive(params["C"], "C")
        if penalty == "none":
            # scikit-learn changed the word for no penalty; a huge C is one in every release.
            penalty, strength = "l2", 1e12
        if penalty not in ("l1", "l2"):
            raise ValueError(f"penalty is {penalty!r}: choose l2, l1 or none")
        if penalty == "l2":
            return model(C=strength, max_iter=int(params["max_iter"]))
        return model(C=strength, max_iter=int(params["max_iter"]), penalty="l1", solver="saga", random_state=0)

    def extras(self, fitted, context):
        return {"coef": _tensor(fitted.coef_, context.device)}


class MLPClassifier(Classifier):
    """A small network trained with Adam; ``train_loss`` is its last loss."""

    NODE_NAME = "MLPClassifier"
    DESCRIPTION = "Classifies by a small network."

    @classmethod
    def outputs(cls, params=None):
        return [_PREDICTIONS, _PROBABILITIES, _CLASSES, Port("train_loss", "SCALAR")]

    @classmethod
    def params(cls):
        return [
            Param("hidden_sizes", "string", "16,16", "Units in each hidden layer, with commas."),
            Param("activation", "select", "relu", "Between the layers.", ["relu", "tanh", "logistic", "identity"]),
            Param("max_iter", "int", 500, "Most passes over the rows.", min_value=1),
            Param("learning_rate_init", "float", 0.01, "Step size. Above 0.", min_value=0.0),
            Param("seed", "int", 42, "Seed of the weights and the shuffling."),
        ]

    def build(self, params, rows):
        sizes = parsing.integers(params["hidden_sizes"], "hidden_sizes", at_least=1)
        if min(sizes) < 1:
            raise ValueError(f"hidden_sizes is {params['hidden_sizes']!r}: each layer needs at least one unit")
        return need("sklearn.neural_network", _PACKAGE, "MLPClassifier").MLPClassifier(
            hidden_layer_sizes=tuple(sizes), activation=params["activation"], max_iter=int(params["max_iter"]),
            learning_rate_init=_positive(params["learning_rate_init"], "learning_rate_init"), random_state=int(params["seed"]),
        )

    def extras(self, fitted, context):
        return {"train_loss": float(fitted.loss_)}


def _positive(value, param):
    if float(value) <= 0:
        raise ValueError(f"{param} is {value}: choose a number above 0")
    return float(value)


class LinearRegression(Node):
    """Least squares: ``predictions [queries]``, ``coef [columns]``; with targets
    ``[rows, k]`` both have k as well, and the intercept is a list."""

    NODE_NAME = "LinearRegression"
    CATEGORY = "Classical"
    DESCRIPTION = "Predicts numbers by a linear model."
    align_inputs = False

    @classmethod
    def inputs(cls, params=None):
        return [
            Port("x_train", "TENSOR", "[rows, columns]"), Port("y_train", "TENSOR", "[rows] or [rows, k]"),
            Port("x_query", "TENSOR", "[queries, columns]"),
        ]

    @classmethod
    def outputs(cls, params=None):
        return [
            Port("predictions", "TENSOR", "[queries] or [queries, k]"),
            Port("coef", "TENSOR", "[columns] or [k, columns]"), Port("intercept", "SCALAR"),
        ]

    @classmethod
    def params(cls):
        return [Param("fit_intercept", "bool", True, "Fit a constant too; else the line goes through 0.")]

    def execute(self, inputs, params, context):
        model = need("sklearn.linear_model", _PACKAGE, "LinearRegression").LinearRegression
        x, query = _array(inputs["x_train"], "x_train"), _array(inputs["x_query"], "x_query")
        y = inputs["y_train"].detach().cpu().double().numpy()
        if len(x) != len(y):
            raise ValueError(f"x_train has {len(x)} rows and y_train {len(y)}: they must be as many")
        fitted = model(fit_intercept=bool(params["fit_intercept"])).fit(x, y)
        constant = fitted.intercept_
        return {
            "predictions": _tensor(fitted.predict(query), context.device),
            "coef": _tensor(fitted.coef_, context.device),
            "intercept": constant.tolist() if hasattr(constant, "tolist") else float(constant),
        }


class Accuracy(Node):
    """The share of predictions that equal their label; compared as text, so that
    1 and "1" are equal."""

    NODE_NAME = "Accuracy"
    CATEGORY = "Classical"
    DESCRIPTION = "How many predictions are right."
    align_inputs = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("predictions", "LIST"), Port("labels", "LIST")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("accuracy", "SCALAR", "0..1"), Port("correct", "SCALAR"), Port("total", "SCALAR")]

    def execute(self, inputs, params):
        predictions, labels = plain(inputs["predictions"]), plain(inputs["labels"])
        if len(predictions) != len(labels):
            raise ValueError(f"there are {len(predictions)} predictions and {len(labels)} labels: they must be as many")
        correct = sum(str(a) == str(b) for a, b in zip(predictions, labels))
        return {"accuracy": correct / len(labels) if labels else 0.0, "correct": correct, "total": len(labels)}


NODES = [Accuracy, DecisionTreeClassifier, KNN, LinearRegression, LogisticRegression, MLPClassifier, RandomForestClassifier, SVMClassifier]
