"""Category Data: tables, as feature tensors ``[rows, columns]`` and labels."""

from __future__ import annotations

import csv
import gzip
import zlib

from cdui.node import Node, Param, Port, need
from cdui.nodes import files, parsing


class CSVReader(Node):
    """A CSV file, gzipped or not, as ``tensor [rows, columns]`` float32, the labels as strings and
    the names of the tensor's columns."""

    NODE_NAME = "CSVReader"
    CATEGORY = "Data"
    DESCRIPTION = "Numbers and labels of a CSV file."
    DETAILS = (
        "Columns that hold anything but numbers are left out, unless include_columns names them: then it is an "
        "error. Empty cells of a column of numbers become NaN and are counted in a warning. Without a header the "
        "columns are called column_0, column_1 and so on."
    )

    @classmethod
    def outputs(cls, params=None):
        return [
            Port("tensor", "TENSOR", "[rows, columns]"),
            Port("labels", "LIST", "one string a row; empty without target_column"),
            Port("columns", "LIST", "names of the tensor's columns"),
        ]

    @classmethod
    def params(cls):
        return [
            Param("path", "string", "data/samples/iris.csv", "The file; one that ends in .gz is unpacked."),
            Param("target_column", "string", "", "The column with the labels; empty for none."),
            Param("include_columns", "string", "", "Names of the columns to take, with commas; empty takes all with numbers."),
            Param("skip_header", "bool", True, "The first line holds the names of the columns."),
        ]

    def execute(self, inputs, params, context):
        import torch

        path = files.find(params["path"], context)
        header, rows = _read_csv(path, bool(params["skip_header"]))
        target = str(params["target_column"]).strip()
        label_column = _column(header, target, "target_column") if target else None
        included = [_column(header, name, "include_columns") for name in parsing.words(params["include_columns"])]
        wanted = included or [index for index in range(len(header)) if index != label_column]
        columns = {}
        for index in wanted:
            try:
                columns[index] = [_number(row[index]) for _, row in rows]
            except ValueError:
                if included:
                    line, cell = next((n, row[index]) for n, row in rows if not _is_number(row[index]))
                    raise ValueError(
                        f"column {header[index]!r} of include_columns holds {cell!r} in line {line}, which is no number: leave it out"
                    ) from None
        # A column without any value is no column of numbers.
        columns = {index: values for index, values in columns.items() if any(value == value for value in values)}
        if not columns:
            raise ValueError(f"{path} has no column of numbers (columns: {', '.join(header)})")
        tensor = torch.tensor(list(columns.values()), dtype=torch.float32).t().contiguous()
        missing = int(torch.isnan(tensor).sum())
        if missing:
            context.warn("missing_values", count=missing, path=params["path"])
        return {
            "tensor": tensor.to(context.device),
            "labels": [] if label_column is None else [row[label_column].strip() for _, row in rows],
            "columns": [header[index] for index in columns],
        }


def _read_csv(path, has_header):
    """The names of the columns and the rows as (line number, cells)."""
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rt", newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {error}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no whole gzip file: {error}") from error
    header = [name.strip() for name in rows.pop(0)[1]] if has_header and rows else []
    if not rows:
        raise ValueError(f"{path} has no rows" + (" below its header" if has_header else ""))
    header = header or [f"column_{index}" for index in range(len(rows[0][1]))]
    for line, row in rows:
        if len(row) != len(header):
            raise ValueError(f"line {line} of {path} has {len(row)} cells where {len(header)} are expected")
    return header, rows


def _column(header, name, param):
    if name in header:
        return header.index(name)
    raise ValueError(f"{param}: there is no column {name!r}; the columns are {', '.join(header)}")


def _number(cell):
    return float(cell) if cell.strip() else float("nan")


def _is_number(cell):
    try:
        _number(cell)
    except ValueError:
        return False
    return True


class ColumnSelector(Node):
    """Some columns of ``[rows, columns]``, in the order in which they are named."""

    NODE_NAME = "ColumnSelector"
    CATEGORY = "Data"
    DESCRIPTION = "Chosen columns of a table, by number or by name."

    @classmethod
    def inputs(cls, params=None):
        return [
            Port("tensor", "TENSOR", "[rows, columns]"),
            Port("columns", "LIST", "the names that names chooses from", optional=True),
        ]

    @classmethod
    def outputs(cls, params=None):
        return [Port("tensor", "TENSOR", "[rows, chosen columns]")]

    @classmethod
    def params(cls):
        return [
            Param("indices", "string", "0", "Numbers of the columns from 0, with commas; negative ones count from the end."),
            Param("names", "string", "", "Names of the columns, with commas; given, indices don't count."),
        ]

    def execute(self, inputs, params):
        tensor, names = inputs["tensor"], parsing.words(params["names"])
        if tensor.dim() < 2:
            raise ValueError(f"the tensor has the shape {list(tensor.shape)} and no columns: Unsqueeze it first")
        if names:
            known = _wired(inputs.get("columns"), "columns")
            chosen = [_column(known, name, "names") for name in names]
        else:
            chosen = parsing.integers(params["indices"], "indices", at_least=1)
        return {"tensor": _pick(tensor, 1, chosen, "column")}


class RowSelector(Node):
    """Some rows of ``[rows, ...]``, in the order in which they are named."""

    NODE_NAME = "RowSelector"
    CATEGORY = "Data"
    DESCRIPTION = "Chosen rows of a table, by number or by label."

    @classmethod
    def inputs(cls, params=None):
        return [
            Port("tensor", "TENSOR", "[rows, ...]"),
            Port("labels", "LIST", "one label a row, that names chooses from", optional=True),
        ]

    @classmethod
    def outputs(cls, params=None):
        return [Port("tensor", "TENSOR", "[chosen rows, ...]")]

    @classmethod
    def params(cls):
        return [
            Param("indices", "string", "0", "Numbers of the rows from 0, with commas; negative ones count from the end."),
            Param("names", "string", "", "Labels with commas: all rows that bear one; given, indices don't count."),
        ]

    def execute(self, inputs, params):
        tensor, names = inputs["tensor"], parsing.words(params["names"])
        if tensor.dim() < 1:
            raise ValueError("the tensor is a single number and has no rows")
        if not names:
            return {"tensor": _pick(tensor, 0, parsing.integers(params["indices"], "indices", at_least=1), "row")}
        labels = [str(label) for label in _wired(inputs.get("labels"), "labels")]
        chosen = []
        for name in names:
            rows = [row for row, label in enumerate(labels) if label == name]
            if not rows:
                raise ValueError(f"names: no row is labelled {name!r}")
            chosen += rows
        return {"tensor": _pick(tensor, 0, chosen, "row")}


def _wired(names, port):
    if not names:
        raise ValueError(f"names needs the input {port}: wire it, or use indices")
    return list(names)


def _pick(tensor, dim, indices, what):
    import torch

    count = tensor.shape[dim]
    for index in indices:
        if not -count <= index < count:
            raise ValueError(f"indices: there is no {what} {index}; the tensor has {count}, numbered from 0")
    return tensor.index_select(dim, torch.tensor([index % count for index in indices], device=tensor.device))


class Normalize(Node):
    """Scales values along an axis; the shape stays. ``stats`` has an entry for
    each slice across the axis, such as one a column for axis 0: (mean, standard
    deviation), (minimum, maximum) or the norm."""

    NODE_NAME = "Normalize"
    CATEGORY = "Data"
    DESCRIPTION = "Scales values: to mean 0 and deviation 1, to 0..1, or to length 1."
    DETAILS = "zscore uses the population standard deviation. Where nothing varies, the divisor is 1."

    @classmethod
    def inputs(cls, params=None):
        return [Port("tensor", "TENSOR")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("tensor", "TENSOR", "float, the same shape"), Port("stats", "LIST", "what was subtracted and divided by")]

    @classmethod
    def params(cls):
        return [
            Param("mode", "select", "zscore", "How to scale.", ["zscore", "minmax", "unit_norm"]),
            Param("axis", "int", 0, "The axis that is summed up; 0 scales each column."),
        ]

    def execute(self, inputs, params):
        import torch

        tensor, axis, mode = inputs["tensor"], int(params["axis"]), params["mode"]
        if not tensor.is_floating_point():
            tensor = tensor.float()
        if not -tensor.dim() <= axis < tensor.dim():
            raise ValueError(f"axis is {axis} and the tensor has the shape {list(tensor.shape)}")
        if tensor.shape[axis] == 0:
            raise ValueError(f"axis {axis} of the tensor is empty: there is nothing to scale")
        if mode == "zscore":
            low, spread = tensor.mean(axis, keepdim=True), tensor.std(axis, unbiased=False, keepdim=True)
            stats = [low, spread]
        elif mode == "minmax":
            low, high = tensor.amin(axis, keepdim=True), tensor.amax(axis, keepdim=True)
            spread, stats = high - low, [low, high]
        elif mode == "unit_norm":
            spread = tensor.norm(dim=axis, keepdim=True)
            low, stats = torch.zeros_like(spread), [spread]
        else:
            raise ValueError(f"mode is {mode!r}: choose zscore, minmax or unit_norm")
        scaled = (tensor - low) / spread.masked_fill(spread == 0, 1)
        rows = torch.stack([part.flatten() for part in stats], dim=1).tolist()
        return {"tensor": scaled, "stats": [row if len(row) > 1 else row[0] for row in rows]}


class TrainTestSplit(Node):
    """Splits ``features [rows, columns]`` and labels into two parts, as
    scikit-learn's train_test_split does with the same seed."""

    NODE_NAME = "TrainTestSplit"
    CATEGORY = "Data"
    DESCRIPTION = "Shuffles a table and splits it into rows to learn from and rows to test with."

    @classmethod
    def inputs(cls, params=None):
        return [Port("features", "TENSOR", "[rows, columns]"), Port("labels", "LIST", "one a row")]

    @classmethod
    def outputs(cls, params=None):
        return [
            Port("x_train", "TENSOR", "[training rows, columns]"), Port("y_train", "LIST"),
            Port("x_test", "TENSOR", "[test rows, columns]"), Port("y_test", "LIST"),
        ]

    @classmethod
    def params(cls):
        return [
            Param("test_size", "float", 0.2, "The share of rows to test with.", min_value=0.0, max_value=1.0),
            Param("seed", "int", 42, "Seed of the shuffle."),
            Param("stratify", "bool", False, "Keep the shares of the labels in both parts."),
        ]

    def execute(self, inputs, params):
        import torch

        features, labels = inputs["features"], list(inputs["labels"])
        if len(labels) != len(features):
            raise ValueError(f"there are {len(features)} rows of features and {len(labels)} labels: they must be as many")
        split = need("sklearn.model_selection", "scikit-learn", "splitting tables").train_test_split
        share = float(params["test_size"])
        if not 0 < share < 1:
            raise ValueError(f"test_size is {share:g}: choose a share above 0 and below 1")
        try:
            train, test = split(
                list(range(len(labels))), test_size=share, random_state=int(params["seed"]),
                stratify=labels if params["stratify"] else None,
            )
        except ValueError as error:
            raise ValueError(f"the table can't be split with test_size {share:g} and stratify {params['stratify']}: {error}") from error
        rows = [torch.tensor(part, device=features.device) for part in (train, test)]
        return {
            "x_train": features[rows[0]], "y_train": [labels[row] for row in train],
            "x_test": features[rows[1]], "y_test": [labels[row] for row in test],
        }


NODES = [CSVReader, ColumnSelector, RowSelector, Normalize, TrainTestSplit]
