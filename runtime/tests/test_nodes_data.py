"""Image sets, loaders and plain inputs, on small files in the real formats and on the real FashionMNIST."""
import gzip
import os
import pickle
import struct

import pytest

from cdui.node import Context, call, fill_params

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

from cdui.nodes import data, datasets, image_files, image_transforms  # noqa: E402

FASHION = "/usr/share/datasets/fashion-mnist"
MNIST = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "data")


def run(node, inputs=None, context=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, context or Context())


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype("uint8").tobytes()


def write_mnist(folder, prefix="train", count=5, packed=True):
    folder.mkdir(parents=True, exist_ok=True)
    images = numpy.arange(count * 784).reshape(count, 28, 28) % 256
    labels = numpy.arange(count) % 10
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        content = idx(array)
        path = folder / (f"{prefix}-{name}-ubyte" + (".gz" if packed else ""))
        path.write_bytes(gzip.compress(content) if packed else content)
    return images, labels


@pytest.mark.parametrize("folder", ["data", "data/MNIST", "data/mnist", "data/MNIST/raw", "data/raw"])
@pytest.mark.parametrize("packed", [True, False])
def test_dataset_finds_mnist_in_the_usual_folders(tmp_path, folder, packed):
    images, labels = write_mnist(tmp_path / folder, packed=packed)
    context = Context(search_dirs=[str(tmp_path / "nowhere"), str(tmp_path)])
    dataset = run(data.Dataset, context=context)["dataset"]
    assert len(dataset) == 5 and [dataset[i][1] for i in range(5)] == labels.tolist()
    wanted = torch.tensor(images[1], dtype=torch.float32).div(255).sub(0.5).div(0.5)
    assert torch.allclose(dataset[1][0], wanted.unsqueeze(0))


def test_a_set_prefers_its_own_folder(tmp_path):
    write_mnist(tmp_path, count=3)
    write_mnist(tmp_path / "FashionMNIST" / "raw", count=7)
    context = Context(search_dirs=[str(tmp_path)])
    assert len(run(data.Dataset, context=context, name="FashionMNIST", data_dir=".")["dataset"]) == 7
    assert len(run(data.Dataset, context=context, name="MNIST", data_dir=".")["dataset"]) == 3


def test_a_missing_set_says_where_it_was_looked_for_and_how_to_get_it(tmp_path):
    context = Context(search_dirs=[str(tmp_path)])
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte.*looked in .*/data .*MNIST must be put there"):
        run(data.Dataset, context=context)
    write_mnist(tmp_path / "data", prefix="t10k")
    with pytest.raises(FileNotFoundError, match="set split to test"):
        run(data.Dataset, context=context)


def test_missing_fashion_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(image_files.SETS, "FashionMNIST", image_files.SETS["FashionMNIST"]._replace(system=(str(tmp_path / "no"),)))
    with pytest.raises(FileNotFoundError, match="apt install dataset-fashion-mnist"):
        run(data.Dataset, context=Context(search_dirs=[str(tmp_path)]), name="FashionMNIST")


@pytest.mark.skipif(not os.path.isdir(FASHION), reason="dataset-fashion-mnist is not installed")
def test_fashion_is_read_from_the_system_folder(tmp_path):
    dataset = run(data.Dataset, context=Context(search_dirs=[str(tmp_path)]), name="FashionMNIST", split="test")["dataset"]
    assert len(dataset) == 10_000 and dataset[0][0].shape == (1, 28, 28)
    assert dataset.classes[dataset[0][1]] == "Ankle boot"
    assert torch.bincount(dataset.labels).tolist() == [1000] * 10


@pytest.mark.skipif(not os.path.isdir(MNIST), reason="the MNIST files are not there")
def test_mnist_itself(tmp_path):
    """Proves B.3."""
    dataset = run(data.Dataset, context=Context(search_dirs=[os.path.dirname(MNIST)]), split="test")["dataset"]
    assert len(dataset) == 10_000 and dataset[0][1] == 7


@pytest.mark.parametrize("spoil", [lambda b: b[:-1], lambda b: b"\x1f\x8b" + b[2:], lambda b: b"", lambda b: b[:6]])
def test_a_damaged_idx_file_is_named(tmp_path, spoil):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(spoil(idx(numpy.zeros((2, 3, 3)))))
    with pytest.raises(ValueError, match=f"{path}.* copy there"):
        image_files.read_idx(str(path))


def test_a_cut_gzip_file_is_named(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(os.urandom(1000))[:-20])
    with pytest.raises(ValueError, match="whole copy"):
        image_files.read_idx(str(path))


def test_cifar10(tmp_path):
    folder = tmp_path / "data" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    rows = numpy.arange(2 * 3072, dtype="uint8").reshape(2, 3072)
    for n in range(1, 6):
        content = {b"data": rows, b"labels": [n, n + 1], b"batch_label": b"x"}
        (folder / f"data_batch_{n}").write_bytes(pickle.dumps(content, protocol=2))
    dataset = run(data.Dataset, context=Context(search_dirs=[str(tmp_path)]), name="CIFAR10")["dataset"]
    assert len(dataset) == 10 and dataset.classes[dataset[0][1]] == "automobile"
    assert torch.equal(dataset.images[0], torch.arange(3072).to(torch.uint8).view(3, 32, 32))


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/cdui-evil",)


def test_a_pickle_that_would_run_something_is_refused(tmp_path):
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({b"data": Evil(), b"labels": []}, protocol=2))
    with pytest.raises(ValueError, match="not a CIFAR file: it asks for posix.system"):
        image_files.read_batch(str(path))
    assert not os.path.exists("/tmp/cdui-evil")


def test_stl10_columns_come_first(tmp_path):
    image = torch.arange(3 * 96 * 96).remainder(251).to(torch.uint8).view(3, 96, 96)
    (tmp_path / "train_X.bin").write_bytes(image.transpose(1, 2).contiguous().numpy().tobytes())
    (tmp_path / "train_y.bin").write_bytes(bytes([1]))
    dataset = run(data.Dataset, name="STL10", data_dir=str(tmp_path))["dataset"]
    assert torch.equal(dataset.images[0], image) and dataset[0][1] == 0


def test_svhn(tmp_path):
    scipy = pytest.importorskip("scipy.io")
    pixels = numpy.random.RandomState(0).randint(0, 256, (32, 32, 3, 2)).astype("uint8")
    scipy.savemat(tmp_path / "test_32x32.mat", {"X": pixels, "y": numpy.array([[10], [3]])})
    dataset = run(data.Dataset, name="SVHN", split="test", data_dir=str(tmp_path))["dataset"]
    assert dataset.labels.tolist() == [0, 3]
    assert torch.equal(dataset.images[1], torch.from_numpy(pixels[..., 1]).permute(2, 0, 1))


def test_wired_transforms_follow_the_split(tmp_path):
    """Proves B.4."""
    write_mnist(tmp_path / "data")
    write_mnist(tmp_path / "data", prefix="t10k")
    context = Context(search_dirs=[str(tmp_path)])
    wired = {"train_transform": lambda image: "train", "eval_transform": lambda image: "eval"}
    first = lambda inputs, split: run(data.Dataset, inputs, context, split=split)["dataset"][0][0]  # noqa: E731
    assert first(wired, "train") == "train" and first(wired, "test") == "eval"
    assert first({"eval_transform": wired["eval_transform"]}, "train") == "eval"
    assert first({"train_transform": wired["train_transform"]}, "test").shape == (1, 28, 28)


def small_set(count=10):
    images = torch.arange(count).view(-1, 1, 1, 1).expand(count, 1, 4, 4).to(torch.uint8)
    return datasets.ImageDataset(images, torch.arange(count), image_transforms.standard())


def test_loader_batches_and_order():
    """Proves B.3."""
    loader = run(data.DataLoader, {"dataset": small_set()}, batch_size=4, shuffle=False)["dataloader"]
    assert [labels.tolist() for _, labels in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    dropped = run(data.DataLoader, {"dataset": small_set()}, batch_size=4, drop_last=True)["dataloader"]
    assert [len(labels) for _, labels in dropped] == [4, 4]


def order(seed, node_id, epochs=2):
    loader = run(data.DataLoader, {"dataset": small_set(100)}, Context(seed=seed, node_id=node_id), batch_size=100)["dataloader"]
    return [next(iter(loader))[1].tolist() for _ in range(epochs)]


def test_a_seeded_loader_shuffles_the_same_whatever_came_before():
    """Proves C.11."""
    first = order(7, "loader")
    torch.manual_seed(99)
    assert order(7, "loader") == first and first[0] != first[1]
    assert order(8, "loader") != first and order(7, "other") != first
    generator = torch.Generator().manual_seed(Context(seed=7).derived_seed("dataloader:loader"))
    wanted = torch.utils.data.DataLoader(small_set(100), 100, shuffle=True, generator=generator)
    assert next(iter(wanted))[1].tolist() == first[0]


def test_workers_load_the_same_batches():
    plain = order(3, "x", 1)
    loader = run(data.DataLoader, {"dataset": small_set(100)}, Context(seed=3, node_id="x"), batch_size=100, num_workers=2)["dataloader"]
    assert [labels.tolist() for _, labels in loader] == plain


def test_items_can_be_given_to_spawned_workers():
    dataset = run(data.Transform, {"dataset": small_set()}, resize=8)["dataset"]
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[3][0], dataset[3][0])


def test_loader_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="num_workers > 0"):
        run(data.DataLoader, {"dataset": small_set()}, persistent_workers=True)
    with pytest.raises(ValueError, match="empty"):
        run(data.DataLoader, {"dataset": small_set(0)})


def test_dataset_batch():
    """Proves B.3."""
    got = run(data.DatasetBatch, {"dataset": small_set()}, batch_size=4, start_index=8)
    assert got["images"].shape == (2, 1, 4, 4) and got["labels"].tolist() == [8, 9]
    with pytest.raises(ValueError, match="start_index is 10 and the dataset has 10"):
        run(data.DatasetBatch, {"dataset": small_set()}, start_index=10)


def test_transform_starts_from_the_raw_images():
    got = run(data.Transform, {"dataset": small_set()}, normalize=False, resize=2)["dataset"]
    assert torch.allclose(got[5][0], torch.full((1, 2, 2), 5 / 255))
    raw = run(data.Transform, {"dataset": small_set()}, normalize=False, to_tensor=False)["dataset"]
    assert raw[5][0].dtype == torch.uint8
    with pytest.raises(ValueError, match="to_tensor"):
        run(data.Transform, {"dataset": small_set()}, to_tensor=False)["dataset"][0]


def test_transform_wraps_foreign_datasets():
    got = run(data.Transform, {"dataset": [(torch.ones(1, 2, 2), 3)]})["dataset"]
    assert torch.equal(got[0][0], torch.ones(1, 2, 2)) and got[0][1] == 3 and len(got) == 1


@pytest.mark.parametrize("mode, dtype, wanted", [
    ("zeros", "int64", [[0, 0], [0, 0]]), ("ones", "float32", [[1, 1], [1, 1]]), ("arange", "int32", [[0, 1], [2, 3]]),
    ("arange", "bool", [[False, True], [True, True]]),
])
def test_tensor_input_constant(mode, dtype, wanted):
    """Proves B.5."""
    got = run(data.TensorInput, shape="2, 2", value_mode=mode, dtype=dtype)["tensor"]
    assert got.tolist() == wanted and got.dtype == getattr(torch, dtype)


def test_tensor_input_random_is_its_seed():
    """Proves B.5."""
    for dtype, wanted in (("float32", lambda g: torch.randn(2, 3, generator=g)),
                          ("int64", lambda g: torch.randint(0, 10, (2, 3), generator=g)),
                          ("bool", lambda g: torch.randint(0, 2, (2, 3), generator=g).bool())):
        got = run(data.TensorInput, shape="2,3", dtype=dtype, seed=5)["tensor"]
        assert torch.equal(got, wanted(torch.Generator().manual_seed(5)))


def test_tensor_input_explicit():
    """Proves B.5."""
    got = run(data.TensorInput, shape="3,2", value_mode="explicit", values=[[1, 2, 3], [4, 5, 6]])["tensor"]
    assert got.tolist() == [[1, 2], [3, 4], [5, 6]]
    big = run(data.TensorInput, shape="1", value_mode="explicit", values=[2 ** 60 + 1], dtype="int64")["tensor"]
    assert big.item() == 2 ** 60 + 1
    with pytest.raises(ValueError, match="values holds 2 numbers and shape"):
        run(data.TensorInput, shape="3", value_mode="explicit", values=[1, 2])
    with pytest.raises(ValueError, match="values must hold numbers"):
        run(data.TensorInput, shape="1", value_mode="explicit", values=["x"])
    with pytest.raises(ValueError, match="shape must be whole numbers"):
        run(data.TensorInput, shape="a,b")


def test_text_input():
    assert run(data.TextInput, value="hi") == {"text": "hi"}
