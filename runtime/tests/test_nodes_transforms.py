"""Transforms of images, and image folders."""
import pickle

import pytest

from cdui.node import Context, MissingPackage, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import transforms  # noqa: E402


def run(node, inputs=None, context=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, context or Context())


def transform(node, **params):
    return pickle.loads(pickle.dumps(run(node, **params)["transform"]))  # as a worker would get it


IMAGE = torch.arange(3 * 8 * 6).to(torch.uint8).view(3, 8, 6)


def test_to_tensor_and_normalize():
    scaled = transform(transforms.ToTensorTransform)(IMAGE)
    assert torch.equal(scaled, IMAGE.float() / 255)
    got = transform(transforms.NormalizeTransform, mean="0.1,0.2,0.3", std="2")
    with pytest.raises(ValueError, match="float image"):
        got(IMAGE)
    got = transform(transforms.NormalizeTransform, mean="0.1,0.2,0.3", std="1,2,4")(scaled)
    assert torch.allclose(got[2], (scaled[2] - 0.3) / 4)
    assert torch.allclose(transform(transforms.NormalizeTransform)(scaled), scaled * 2 - 1)
    with pytest.raises(ValueError, match="std must not hold 0"):
        transform(transforms.NormalizeTransform, std="0")
    with pytest.raises(ValueError, match="mean has 2 numbers and the image 3 channels"):
        transform(transforms.NormalizeTransform, mean="1,2")(scaled)


def test_resize():
    got = transform(transforms.ResizeTransform, height=4, width=12)(IMAGE)
    assert got.shape == (3, 4, 12) and got.dtype == torch.uint8
    flat = transform(transforms.ResizeTransform, height=3, width=3)(torch.full((1, 9, 9), 0.25))
    assert torch.allclose(flat, torch.full((1, 3, 3), 0.25))


def test_random_crop_and_flip_take_what_is_there():
    torch.manual_seed(0)
    crop = transform(transforms.RandomCrop, size=4)
    places = {(int(part[0, 0, 0]), part.shape) for part in (crop(IMAGE) for _ in range(100))}
    assert places == {(int(IMAGE[0, y, x]), (3, 4, 4)) for y in range(5) for x in range(3)}
    assert transform(transforms.RandomCrop, size=10, padding=2)(IMAGE).shape == (3, 10, 10)
    with pytest.raises(ValueError, match="a crop of 9x9 is larger than the image, 8x6"):
        transform(transforms.RandomCrop, size=9)(IMAGE)
    assert torch.equal(transform(transforms.RandomHorizontalFlip, p=1.0)(IMAGE), IMAGE.flip(2))
    assert torch.equal(transform(transforms.RandomHorizontalFlip, p=0.0)(IMAGE), IMAGE)


def test_rotation_keeps_sizes_and_angles():
    square = torch.zeros(1, 21, 31)
    square[0, 10, 5:26] = 1.0  # a level line
    for _ in range(20):
        turned = transform(transforms.RandomRotation, degrees=30)(square)
        assert turned.shape == square.shape and turned[0, 10, 15] > 0.5
        assert turned.sum() == pytest.approx(21, rel=0.15)  # not stretched, though the image is not square
    assert torch.allclose(transform(transforms.RandomRotation, degrees=0)(square), square, atol=1e-4)


def test_colour_jitter_stays_in_range():
    jitter = transform(transforms.ColorJitter, brightness=0.5, contrast=0.5, saturation=0.5)
    for image in (IMAGE, IMAGE.float() / 255, IMAGE.float() / 127.5 - 1):
        got = jitter(image)
        assert got.dtype == image.dtype and not torch.equal(got, image)
        assert got.min() >= min(0, image.min()) and got.max() <= (255 if image.dtype == torch.uint8 else 1)
    assert torch.equal(transform(transforms.ColorJitter)(IMAGE), IMAGE)


def test_compose_goes_in_order():
    steps = {"step_1": lambda image: image + [1], "step_3": lambda image: image + [3]}
    got = run(transforms.ComposeTransform, steps, steps=3)["transform"]
    assert got([]) == [1, 3]
    assert [port.name for port in transforms.ComposeTransform.inputs({"steps": "4 of them"})] == ["step_1", "step_2", "step_3", "step_4"]


def test_image_folder(tmp_path):
    try:
        from PIL import Image
    except ImportError:
        with pytest.raises(MissingPackage, match="the package pillow is needed for reading images"):
            run(transforms.ImageFolderDataset, root=str(tmp_path))
        return
    for name, colour in (("cat/a.png", (255, 0, 0)), ("cat/b.PNG", (255, 255, 255)), ("ant/deep/c.bmp", (0, 0, 0))):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 4), colour).save(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").write_text("x")
    got = run(transforms.ImageFolderDataset, root=str(tmp_path), resize=0)
    assert got["classes"] == ["ant", "cat"] and len(got["dataset"]) == 3
    image, label = got["dataset"][1]
    assert label == 1 and image.shape == (3, 4, 5) and image[:, 0, 0].tolist() == [1, -1, -1]
    assert run(transforms.ImageFolderDataset, root=str(tmp_path), mode="L", resize=8)["dataset"][0][0].shape == (1, 8, 8)
    (tmp_path / "cat" / "a.png").write_text("x")
    with pytest.raises(ValueError, match="a.png can't be read as an image"):
        got["dataset"][1]
