"""Tables and made-up data, against scikit-learn and plain torch."""
import gzip

import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")
sklearn_datasets = pytest.importorskip("sklearn.datasets")

from sklearn.model_selection import train_test_split  # noqa: E402

from cdui.nodes import synthetic, tables  # noqa: E402


def run(node, inputs=None, context=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, context or Context())


IRIS = "\ufeffwidth, length ,species,note\n1,2.5,setosa,a\n\n3,,virginica,b\n"


@pytest.fixture
def iris(tmp_path):
    (tmp_path / "iris.csv").write_text(IRIS, encoding="utf-8")
    return Context(search_dirs=[str(tmp_path)])


def test_csv_takes_numbers_and_labels(iris):
    """Proves B.5."""
    got = run(tables.CSVReader, context=iris, path="iris.csv", target_column="species")
    assert got["columns"] == ["width", "length"] and got["labels"] == ["setosa", "virginica"]
    assert got["tensor"].dtype == torch.float32 and got["tensor"][0].tolist() == [1, 2.5]
    assert torch.isnan(got["tensor"][1, 1])
    assert iris.warnings == [("missing_values", {"count": 1, "path": "iris.csv"})]


def test_csv_includes_what_is_named(iris):
    """Proves B.5."""
    got = run(tables.CSVReader, context=iris, path="iris.csv", include_columns="length, width")
    assert got["columns"] == ["length", "width"] and got["labels"] == []


def test_csv_without_header(tmp_path):
    (tmp_path / "x.csv").write_text("1,2,a\n3,4,b\n")
    got = run(tables.CSVReader, path=str(tmp_path / "x.csv"), skip_header=False, target_column="column_2")
    assert got["tensor"].tolist() == [[1, 2], [3, 4]] and got["columns"] == ["column_0", "column_1"] and got["labels"] == ["a", "b"]


def test_csv_may_be_gzipped(tmp_path):
    packed = gzip.compress(b"1,2\n3,4\n")
    (tmp_path / "x.csv.gz").write_bytes(packed)
    assert run(tables.CSVReader, path=str(tmp_path / "x.csv.gz"), skip_header=False)["tensor"].tolist() == [[1, 2], [3, 4]]
    for bad in (packed[:-4], b"1,2\n3,4\n"):
        (tmp_path / "x.csv.gz").write_bytes(bad)
        with pytest.raises(ValueError, match="is no whole gzip file"):
            run(tables.CSVReader, path=str(tmp_path / "x.csv.gz"), skip_header=False)


@pytest.mark.parametrize("params, message", [
    ({"path": "none.csv"}, "there is no file 'none.csv'; looked for"),
    ({"path": ""}, "path is empty"),
    ({"target_column": "kind"}, "target_column: there is no column 'kind'; the columns are width, length, species, note"),
    ({"include_columns": "width,note"}, "column 'note' of include_columns holds 'a' in line 2"),
])
def test_csv_says_what_is_wrong(iris, params, message):
    """Proves B.5."""
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run(tables.CSVReader, context=iris, **{"path": "iris.csv", **params})


@pytest.mark.parametrize("content, message", [
    (b"a,b\n1,2\n3\n", "line 3 of .* has 1 cells where 2"), (b"a,b\n", "no rows below its header"), (b"", "no rows"),
    (b"a\n\xff\xfe\n", "not a CSV file in UTF-8"), (b"a,b\nx,y\n", "no column of numbers"),
])
def test_a_bad_csv_says_what_is_wrong(tmp_path, content, message):
    (tmp_path / "bad.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        run(tables.CSVReader, path=str(tmp_path / "bad.csv"))


TABLE = torch.arange(12.0).view(4, 3)


def test_column_selector():
    """Proves B.3."""
    assert torch.equal(run(tables.ColumnSelector, {"tensor": TABLE}, indices="2,0,-1")["tensor"], TABLE[:, [2, 0, 2]])
    named = run(tables.ColumnSelector, {"tensor": TABLE, "columns": ["a", "b", "c"]}, names="c, a")["tensor"]
    assert torch.equal(named, TABLE[:, [2, 0]])
    with pytest.raises(ValueError, match="there is no column 3; the tensor has 3"):
        run(tables.ColumnSelector, {"tensor": TABLE}, indices="3")
    with pytest.raises(ValueError, match="wire it"):
        run(tables.ColumnSelector, {"tensor": TABLE}, names="a")
    with pytest.raises(ValueError, match="no column 'd'"):
        run(tables.ColumnSelector, {"tensor": TABLE, "columns": ["a"]}, names="d")
    with pytest.raises(ValueError, match="Unsqueeze"):
        run(tables.ColumnSelector, {"tensor": torch.ones(3)})


def test_row_selector():
    """Proves B.3."""
    assert torch.equal(run(tables.RowSelector, {"tensor": TABLE}, indices="3,-4")["tensor"], TABLE[[3, 0]])
    named = run(tables.RowSelector, {"tensor": TABLE, "labels": ["x", "y", "x", 7]}, names="7,x")["tensor"]
    assert torch.equal(named, TABLE[[3, 0, 2]])
    with pytest.raises(ValueError, match="no row is labelled 'z'"):
        run(tables.RowSelector, {"tensor": TABLE, "labels": ["x"] * 4}, names="z")


def test_normalize():
    """Proves B.5."""
    x = torch.tensor([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    got = run(tables.Normalize, {"tensor": x})
    assert torch.allclose(got["tensor"][:, 0], (x[:, 0] - 4) / x[:, 0].std(unbiased=False)) and got["tensor"][:, 1].tolist() == [0, 0, 0]
    assert got["stats"][0] == pytest.approx([4, x[:, 0].std(unbiased=False).item()]) and got["stats"][1] == [5, 0]
    got = run(tables.Normalize, {"tensor": x}, mode="minmax")
    assert torch.allclose(got["tensor"][:, 0], torch.tensor([0, 2 / 7, 1])) and got["stats"] == [[1, 8], [5, 5]]
    got = run(tables.Normalize, {"tensor": x}, mode="unit_norm", axis=1)
    assert torch.allclose(got["tensor"], torch.nn.functional.normalize(x, dim=1))
    assert got["stats"] == pytest.approx(x.norm(dim=1).tolist())
    assert run(tables.Normalize, {"tensor": torch.zeros(2, 2, dtype=torch.int64)}, mode="unit_norm")["tensor"].tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match="axis is 2"):
        run(tables.Normalize, {"tensor": x}, axis=2)


@pytest.mark.parametrize("stratify", [False, True])
def test_split_is_scikit_learns(stratify):
    """Proves B.5."""
    x, y = torch.arange(60.0).view(30, 2), ["a", "b", "c"] * 10
    got = run(tables.TrainTestSplit, {"features": x, "labels": y}, test_size=0.3, seed=1, stratify=stratify)
    a, b, c, d = train_test_split(x.numpy(), y, test_size=0.3, random_state=1, stratify=y if stratify else None)
    assert got["x_train"].tolist() == a.tolist() and got["x_test"].tolist() == b.tolist()
    assert (got["y_train"], got["y_test"]) == (c, d)


def test_split_says_what_is_wrong():
    with pytest.raises(ValueError, match="3 rows of features and 2 labels"):
        run(tables.TrainTestSplit, {"features": torch.ones(3, 1), "labels": [1, 2]})
    with pytest.raises(ValueError, match="above 0 and below 1"):
        run(tables.TrainTestSplit, {"features": torch.ones(3, 1), "labels": [1, 2, 3]}, test_size=1.0)
    with pytest.raises(ValueError, match="stratify True"):
        run(tables.TrainTestSplit, {"features": torch.ones(3, 1), "labels": [1, 2, 3]}, stratify=True)


def test_points_are_scikit_learns():
    """Proves B.3."""
    same = {"n_samples": 50, "random_state": 3}
    wanted = {
        "circles": sklearn_datasets.make_circles(noise=0.2, factor=0.3, **same),
        "moons": sklearn_datasets.make_moons(noise=0.2, **same),
        "blobs": sklearn_datasets.make_blobs(centers=4, cluster_std=2.0, **same),
        "classification": sklearn_datasets.make_classification(
            n_features=2, n_redundant=0, n_clusters_per_class=1, flip_y=0.2, **same),
    }
    for kind, (points, classes) in wanted.items():
        got = run(synthetic.SyntheticDataset, kind=kind, n_samples=50, noise=0.2, factor=0.3, centers=4, seed=3)
        assert torch.allclose(got["tensor"], torch.tensor(points).float()) and got["labels"] == classes.tolist()
        assert got["columns"] == ["x", "y"]


def test_segmentation_masks_what_is_bright():
    make = lambda seed: run(synthetic.SyntheticSegmentation, n_samples=4, noise=0.0, seed=seed)["dataset"]  # noqa: E731
    image, mask = make(1)[3]
    assert image.shape == mask.shape == (1, 64, 64) and set(mask.unique().tolist()) == {0, 1}
    assert torch.equal(image > 0.5, mask.bool())
    assert torch.equal(make(1).images, make(1).images) and not torch.equal(make(1).images, make(2).images)


def test_shapes_lie_inside_the_image():
    dataset = run(synthetic.SyntheticShapes, n_samples=30)["dataset"]
    assert [dataset[i][1] for i in range(4)] == [0, 1, 2, 0]
    image = dataset[0][0]
    assert image.shape == (3, 24, 24) and -1 <= image.min() < 0
    edge = torch.cat([dataset.images[:, :, 0], dataset.images[:, :, -1], dataset.images[..., 0], dataset.images[..., -1]])
    assert (edge == 16).float().mean() > 0.9 and (dataset.images.flatten(1).amax(1) > 95).all()
