"""Finds and reads the files of well-known image sets; nothing is downloaded.

Each set is read as they are published: IDX files (MNIST, FashionMNIST), Python
pickles (CIFAR), MATLAB (SVHN) and plain bytes (STL10).
"""

from __future__ import annotations

import gzip
import os
import pickle
import struct
import zlib
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cdui.node import need
from cdui.nodes import files


class ImageSet(NamedTuple):
    """How a set lies on disk. ``files`` maps a split to its files, each as the
    names that it may have."""

    folders: Sequence[str]
    files: Mapping[str, Sequence[Sequence[str]]]
    read: Callable[[list[str], str], tuple[Any, Any]]
    classes: Sequence[str]
    mend: str
    system: Sequence[str] = ()


def load(name: str, split: str, data_dir: str, search_dirs: Sequence[str]) -> tuple[Any, Any, Sequence[str]]:
    """Images ``[n, channels, height, width]`` uint8, labels ``[n]`` int64 and the
    names of the classes."""
    chosen = SETS.get(name)
    if chosen is None:
        raise ValueError(f"name is {name!r}: choose {', '.join(SETS)}")
    if split not in chosen.files:
        raise ValueError(f"split is {split!r}: choose {' or '.join(chosen.files)}")
    images, labels = chosen.read(locate(name, split, data_dir, search_dirs), split)
    if len(images) != len(labels):
        raise ValueError(f"{name} {split} has {len(images)} images and {len(labels)} labels: the files don't belong together")
    return images, labels, chosen.classes


def locate(name: str, split: str, data_dir: str, search_dirs: Sequence[str]) -> list[str]:
    """The paths of a split's files, all from the first folder that has them all."""
    chosen = SETS[name]
    bases = files.candidates(data_dir or ".", search_dirs)
    places = [os.path.normpath(os.path.join(base, sub)) for base in bases for sub in (*chosen.folders, ".")]
    places += chosen.system
    for place in places:
        paths = _all_in(place, chosen.files[split])
        if paths:
            return paths
    wanted = ", ".join(names[0] for names in chosen.files[split])
    looked = ", ".join([*map(os.path.abspath, bases), *chosen.system])
    others = [other for other in chosen.files if other != split
              for place in places if _all_in(place, chosen.files[other])]
    hint = f" The {others[0]} split is there: set split to {others[0]} to use it." if others else ""
    raise FileNotFoundError(
        f"{name}: no folder holds the {split} files {wanted}; looked in {looked} "
        f"(and their sub-folders {', '.join(chosen.folders)}). {chosen.mend}.{hint}"
    )


def _all_in(folder: str, wanted: Sequence[Sequence[str]]) -> list[str] | None:
    found = []
    for names in wanted:
        paths = [os.path.join(folder, name) for name in names]
        path = next(filter(os.path.isfile, paths), None)
        if path is None:
            return None
        found.append(path)
    return found


def read_idx(path: str) -> Any:
    """The uint8 tensor in an IDX file, packed with gzip or not: two zeros, the
    type, the number of dimensions, their sizes, the bytes."""
    import torch

    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rb") as stream:
            content = bytearray(stream.read())
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} can't be read: {error}; put a whole copy there") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes: put an original copy there")
    start = 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start]) if len(content) >= start else (0, 1)
    size = 1
    for length in shape:
        size *= length
    if len(content) - start != size or size == 0:
        raise ValueError(f"{path} is cut short or damaged: put a whole copy there")
    return torch.frombuffer(content, dtype=torch.uint8, offset=start).view(shape)


def _read_idx_pair(paths, split):
    return read_idx(paths[0]).unsqueeze(1), read_idx(paths[1]).long()


class _ArraysOnly(pickle.Unpickler):
    """Builds NumPy arrays and plain values, and refuses everything else that a
    pickle could run."""

    def find_class(self, module: str, name: str) -> Any:
        import numpy

        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            # Where it lives differs between releases of NumPy.
            return numpy.empty(0).__reduce__()[0]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(numpy, name)
        if (module, name) == ("_codecs", "encode"):
            import codecs

            return codecs.encode
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR file does")


def read_batch(path: str) -> dict[bytes, Any]:
    """The dict in a CIFAR file, read without running anything in it."""
    try:
        with open(path, "rb") as stream:
            content = _ArraysOnly(stream, encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a CIFAR file: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a CIFAR file: it holds a {type(content).__name__}")
    return {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}


def _read_cifar(label_key: bytes):
    def read(paths, split):
        import torch

        images, labels = [], []
        for path in paths:
            batch = read_batch(path)
            if b"data" not in batch or label_key not in batch:
                raise ValueError(f"{path} lacks its data or {label_key.decode()}: put an original copy there")
            images.append(torch.as_tensor(batch[b"data"], dtype=torch.uint8).view(-1, 3, 32, 32))
            labels += list(batch[label_key])
        return torch.cat(images), torch.tensor(labels, dtype=torch.int64)

    return read


def _read_svhn(paths, split):
    import torch

    content = need("scipy.io", "scipy", "reading SVHN").loadmat(paths[0])
    images = torch.from_numpy(content["X"].transpose(3, 2, 0, 1).copy())
    labels = torch.from_numpy(content["y"].astype("int64").ravel())
    labels[labels == 10] = 0  # the files say 10 for the digit 0
    return images, labels


def _read_stl10(paths, split):
    import torch

    with open(paths[0], "rb") as stream:
        pixels = torch.frombuffer(bytearray(stream.read()), dtype=torch.uint8)
    with open(paths[1], "rb") as stream:
        labels = torch.frombuffer(bytearray(stream.read()), dtype=torch.uint8).long() - 1
    # Columns come first in the files.
    return pixels.view(-1, 3, 96, 96).transpose(2, 3).contiguous(), labels


def _idx_files(prefix: str) -> list[list[str]]:
    return [
        [f"{prefix}-{part}{dot}idx{dims}-ubyte{packed}" for dot in "-." for packed in ("", ".gz")]
        for part, dims in (("images", 3), ("labels", 1))
    ]


_IDX = {"train": _idx_files("train"), "test": _idx_files("t10k")}
_CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck".split()
_FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_PUT = "Put them there, or name their folder with data_dir; nothing is downloaded"

#: The sets that the node Dataset offers, by name. An own folder is tried before
#: the bare data_dir: the files of MNIST and FashionMNIST have the same names.
SETS: dict[str, ImageSet] = {
    "MNIST": ImageSet(
        ("MNIST/raw", "MNIST", "mnist", "raw"), _IDX, _read_idx_pair, [str(n) for n in range(10)],
        "MNIST must be put there (no Debian package brings it), or name its folder with data_dir; nothing is downloaded",
    ),
    "CIFAR10": ImageSet(
        ("cifar-10-batches-py", "CIFAR10/cifar-10-batches-py", "cifar10/cifar-10-batches-py", "CIFAR10", "cifar10"),
        {"train": [[f"data_batch_{n}"] for n in range(1, 6)], "test": [["test_batch"]]},
        _read_cifar(b"labels"), _CIFAR10, f"{_PUT}. They come unpacked from cifar-10-python.tar.gz",
    ),
    "FashionMNIST": ImageSet(
        ("FashionMNIST/raw", "FashionMNIST", "fashionmnist", "fashion-mnist", "raw"), _IDX, _read_idx_pair, _FASHION,
        "On Debian and Ubuntu the package dataset-fashion-mnist brings them: apt install dataset-fashion-mnist",
        ("/usr/share/datasets/fashion-mnist",),
    ),
    "CIFAR100": ImageSet(
        ("cifar-100-python", "CIFAR100/cifar-100-python", "cifar100/cifar-100-python", "CIFAR100", "cifar100"),
        {"train": [["train"]], "test": [["test"]]}, _read_cifar(b"fine_labels"), [],
        f"{_PUT}. They come unpacked from cifar-100-python.tar.gz",
    ),
    "SVHN": ImageSet(
        ("SVHN", "svhn"), {"train": [["train_32x32.mat"]], "test": [["test_32x32.mat"]]}, _read_svhn,
        [str(n) for n in range(10)], _PUT,
    ),
    "STL10": ImageSet(
        ("stl10_binary", "STL10/stl10_binary", "stl10/stl10_binary", "STL10", "stl10"),
        {split: [[f"{split}_X.bin"], [f"{split}_y.bin"]] for split in ("train", "test")}, _read_stl10,
        "airplane bird car cat deer dog horse monkey ship truck".split(),
        f"{_PUT}. They come unpacked from stl10_binary.tar.gz",
    ),
}
