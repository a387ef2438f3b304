"""IO nodes: files of models, pictures and texts, and what a called graph is given."""
import base64
import os
import pickle
import stat
import sys
import types

import pytest

from cdui.node import Context, MissingPackage, call, fill_params

torch = pytest.importorskip("torch")

from cdui.nodes import images, io as io_nodes, models, png, weights  # noqa: E402


@pytest.fixture
def context(tmp_path):
    data, project = tmp_path / "data", tmp_path / "project"
    data.mkdir()
    project.mkdir()
    return Context(data_root=str(data), search_dirs=[str(project), str(data)])


def run(node, context, inputs=None, **params):
    return call(node(), inputs or {}, fill_params(node, params), lambda payload: None, context)


def model(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def same_weights(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values()))


def test_weights_are_saved_and_loaded(context):
    """Proves B.5."""
    saved, fresh = model(0), model(1)
    got = run(models.ModelSaver, context, {"model": saved}, path="sub/w.pt")
    assert got["path"] == os.path.join(os.path.realpath(context.data_root), "models", "sub", "w.pt")
    assert got["model"] is saved
    assert context.artifacts == [("model", got["path"], {"save_mode": "state_dict", "format": "pytorch"})]
    assert os.listdir(os.path.dirname(got["path"])) == ["w.pt"]
    assert run(models.ModelLoader, context, {"model": fresh}, path="sub/w.pt")["model"] is fresh
    assert same_weights(saved, fresh)


def test_a_model_is_saved_whole(context):
    run(models.ModelSaver, context, {"model": model(0)}, save_mode="full_model")
    got = run(models.ModelLoader, context, path="model_weights.pt", load_mode="full_model")["model"]
    assert same_weights(got, model(0))
    with pytest.raises(ValueError, match="load_mode full_model, which runs code"):
        run(models.ModelLoader, context, {"model": model(1)}, path="model_weights.pt")


def test_a_model_that_can_not_be_pickled(context):
    class Local(torch.nn.Module):
        pass

    with pytest.raises(ValueError, match="set save_mode to state_dict"):
        run(models.ModelSaver, context, {"model": Local()}, save_mode="full_model")
    assert os.listdir(os.path.join(context.data_root, "models")) == []


def test_weights_run_no_code_when_they_are_read(context, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    place = tmp_path / "project" / "evil.pt"
    for content in ({"w": Evil()}, Evil()):
        torch.save(content, place)
        with pytest.raises(ValueError, match="is no file of weights"):
            run(models.ModelLoader, context, {"model": model()}, path="evil.pt")
    torch.save({"w": Evil()}, place, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match="is no file of weights"):
        run(models.ModelLoader, context, {"model": model()}, path="evil.pt")
    place.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError):
        run(models.ModelLoader, context, {"model": model()}, path="evil.pt")
    assert not (tmp_path / "ran").exists()


def test_weights_of_all_kinds_are_read(tmp_path):
    content = {
        "half": torch.ones(2, dtype=torch.float16), "bf": torch.ones(2, dtype=torch.bfloat16), "ints": torch.arange(3),
        "flags": torch.tensor([True]), "parameter": torch.nn.Parameter(torch.ones(1)), "size": torch.Size([1]),
        "plain": [1, 2.5, "x", None, True, (1,), {"a": 1}, 2**70], "empty": torch.empty(0), "view": torch.arange(6)[::2],
    }
    for new in (True, False):
        torch.save(content, tmp_path / "w.pt", _use_new_zipfile_serialization=new)
        got = weights.read(str(tmp_path / "w.pt"))
        assert got["plain"] == content["plain"] and got["view"].tolist() == [0, 2, 4]
        assert {k: v.dtype for k, v in got.items() if torch.is_tensor(v)} == {k: v.dtype for k, v in content.items() if torch.is_tensor(v)}


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"PK\x03\x04broken"])
def test_a_broken_file_is_told(context, tmp_path, content):
    (tmp_path / "project" / "w.pt").write_bytes(content)
    with pytest.raises(ValueError, match="w.pt"):
        run(models.ModelLoader, context, {"model": model()}, path="w.pt")


def test_loading_is_strict_or_not(context):
    """Proves B.5."""
    run(models.ModelSaver, context, {"model": model()}, path="w.pt")
    bigger = torch.nn.Sequential(*model(1), torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="don't fit the wired model.*Missing key"):
        run(models.ModelLoader, context, {"model": bigger}, path="w.pt")
    assert run(models.ModelLoader, context, {"model": bigger}, path="w.pt", strict=False)["model"] is bigger
    with pytest.raises(ValueError, match="wire one to 'model'"):
        run(models.ModelLoader, context, path="w.pt")


@pytest.mark.parametrize("path", ["../../w.pt", "/etc/w.pt", "a/../../../w.pt", "link/w.pt", "", "sub/"])
def test_nothing_is_written_outside_of_the_data_folder(context, tmp_path, path):
    """Proves B.5, ST-02."""
    models_folder = os.path.join(context.data_root, "models")
    os.makedirs(models_folder)
    os.symlink(tmp_path, os.path.join(models_folder, "link"))
    for node, inputs in ((models.ModelSaver, {"model": model()}), (images.ImageWriter, {"image": torch.rand(1, 2, 2)})):
        if path == "link/w.pt" and node is images.ImageWriter:
            continue  # the link lies in models/
        with pytest.raises(ValueError, match="path"):
            run(node, context, inputs, path=path)
    assert not (tmp_path / "w.pt").exists()


def test_what_is_not_found_is_told_with_the_places(context):
    with pytest.raises(FileNotFoundError) as caught:
        run(models.ModelLoader, context, {"model": model()}, path="gone.pt")
    for folder in (os.path.join(context.data_root, "models"), *context.search_dirs):
        assert os.path.join(folder, "gone.pt") in str(caught.value)
    with pytest.raises(ValueError, match="path is empty"):
        run(models.ModelLoader, context, {"model": model()})


def test_safetensors(context):
    """Proves B.5."""
    if not available("safetensors"):
        with pytest.raises(MissingPackage, match="the package safetensors is needed for format safetensors"):
            run(models.ModelSaver, context, {"model": model()}, format="safetensors")
        return
    got = run(models.ModelSaver, context, {"model": model(0)}, format="safetensors")
    assert got["path"].endswith("model_weights.safetensors")
    assert same_weights(run(models.ModelLoader, context, {"model": model(1)}, path=got["path"])["model"], model(0))


def test_safetensors_are_given_tensors_of_their_own(context, monkeypatch):
    given = {}

    def save_file(tensors, path):
        given.update(tensors)
        torch.save(tensors, path)

    fake = types.SimpleNamespace(save_file=save_file, load_file=torch.load)
    monkeypatch.setitem(sys.modules, "safetensors", types.SimpleNamespace(torch=fake))
    monkeypatch.setitem(sys.modules, "safetensors.torch", fake)
    tied = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    got = run(models.ModelSaver, context, {"model": tied}, path="w.pt", format="safetensors")
    assert got["path"].endswith("w.safetensors")
    assert given["0.weight"].data_ptr() != given["1.weight"].data_ptr()
    fresh = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    assert same_weights(run(models.ModelLoader, context, {"model": fresh}, path="w.safetensors")["model"], tied)


def test_safetensors_hold_weights_only(context):
    """Proves B.5."""
    with pytest.raises(ValueError, match="set save_mode to state_dict or format to pytorch"):
        run(models.ModelSaver, context, {"model": model()}, format="safetensors", save_mode="full_model")


def available(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


def trained(seed):
    net = model(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(2):
        net(torch.ones(4, 3)).sum().backward()
        optimizer.step()
        scheduler.step()
    return net, optimizer, scheduler


def test_a_training_goes_on_from_its_checkpoint(context):
    """Proves B.5, B.4."""
    net, optimizer, scheduler = trained(0)
    got = run(models.CheckpointSaver, context, {
        "model": net, "optimizer": optimizer, "lr_scheduler": scheduler, "losses": torch.tensor([2.0, 1.0]),
        "grad_scaler_state": {"scale": 8.0}}, epoch=2)
    assert context.artifacts == [("checkpoint", got["path"], {"epoch": 2})]

    # The optimizer was made for another model: it is bound to the wired one.
    fresh, other = model(1), model(2)
    fresh_optimizer = torch.optim.Adam(other.parameters(), lr=0.5)
    fresh_scheduler = torch.optim.lr_scheduler.StepLR(fresh_optimizer, 1)
    got = run(models.CheckpointLoader, context, {"model": fresh, "optimizer": fresh_optimizer, "lr_scheduler": fresh_scheduler},
              path="checkpoint.pt")
    assert got["epoch"] == 2 and got["losses"].tolist() == [2, 1] and got["grad_scaler_state"] == {"scale": 8.0}
    assert fresh_scheduler.state_dict()["last_epoch"] == 2
    assert same_weights(fresh, net)
    for stepped in ((net, optimizer), (fresh, fresh_optimizer)):
        stepped[1].zero_grad()
        stepped[0](torch.ones(4, 3)).sum().backward()
        stepped[1].step()
    assert same_weights(fresh, net)


def test_a_checkpoint_s_weights_can_be_loaded_alone(context):
    net, optimizer, _ = trained(0)
    run(models.CheckpointSaver, context, {"model": net, "optimizer": optimizer})
    assert same_weights(run(models.ModelLoader, context, {"model": model(1)}, path="checkpoint.pt")["model"], net)


def test_what_is_no_checkpoint_is_told(context):
    net, optimizer, _ = trained(0)
    run(models.ModelSaver, context, {"model": net}, path="w.pt")
    with pytest.raises(ValueError, match="has no model_state_dict and no optimizer_state_dict"):
        run(models.CheckpointLoader, context, {"model": net, "optimizer": optimizer}, path="w.pt")
    run(models.CheckpointSaver, context, {"model": net, "optimizer": optimizer})
    half = torch.optim.Adam(net[0].parameters())
    with pytest.raises(ValueError, match="doesn't fit the wired optimizer"):
        run(models.CheckpointLoader, context, {"model": net, "optimizer": half}, path="checkpoint.pt")


def test_inference(context):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.9))
    x = torch.rand(4, 3)
    got = run(models.Inference, context, {"model": net, "input": x})
    torch.testing.assert_close(got["output"], net[0](x))
    assert not got["output"].requires_grad and got["model"] is net and net.training


def test_a_device_that_is_not_here_is_replaced(context):
    if torch.cuda.is_available():
        pytest.skip("cuda is here")
    run(models.Inference, context, {"model": model(), "input": torch.rand(4, 3)}, device="cuda")
    assert [kind for kind, _ in context.warnings] == ["device_fallback"]


def test_a_png_is_written_without_a_package(context, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    image = torch.tensor([[[0.0, 0.5], [1.0, 7.0]]])
    got = run(images.ImageWriter, context, {"image": image}, path="a/b.jpg")
    assert got["path"] == os.path.join(os.path.realpath(context.data_root), "images", "a", "b.png")
    with open(got["path"], "rb") as file:
        assert file.read() == png.encode(torch.tensor([[[0], [128]], [[255], [255]]], dtype=torch.uint8))
    assert context.artifacts == [("image", got["path"], {"format": "PNG", "width": 2, "height": 2})]
    assert stat.S_ISREG(os.stat(got["path"]).st_mode) and os.listdir(os.path.dirname(got["path"])) == ["b.png"]


def test_without_pillow_the_package_is_named(context, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    run(images.ImageWriter, context, {"image": torch.rand(3, 2, 2)}, path="a.png")
    for node, params in ((images.ImageReader, dict(path="a.png")), (images.ImageBatchReader, dict(directory="."))):
        with pytest.raises(MissingPackage, match="the package Pillow .* is needed for reading images"):
            run(node, context, **params)
    with pytest.raises(MissingPackage, match="Pillow .* is needed for writing JPEG; format PNG needs no package"):
        run(images.ImageWriter, context, {"image": torch.rand(3, 2, 2)}, format="JPEG")


@pytest.mark.parametrize("form, suffix", [("PNG", ".png"), ("JPEG", ".jpg"), ("BMP", ".bmp"), ("TIFF", ".tif")])
def test_pictures_are_written_and_read(context, form, suffix):
    """Proves B.3."""
    pytest.importorskip("PIL.Image")
    image = torch.linspace(0, 1, 3 * 16 * 8).reshape(3, 16, 8)
    got = run(images.ImageWriter, context, {"image": image}, format=form)
    assert got["path"].endswith("output" + suffix)
    back = run(images.ImageReader, context, path="output" + suffix)
    assert back["tensor"].shape == (1, 3, 16, 8)
    torch.testing.assert_close(back["image"], image, rtol=0, atol=0.06 if form == "JPEG" else 0.003)


def test_pictures_are_converted_and_scaled(context):
    pytest.importorskip("PIL.Image")
    for name, value in (("b", 1.0), ("a", 0.0)):
        run(images.ImageWriter, context, {"image": torch.full((4, 6, 9), value)}, path=f"set/{name}.png")
    assert run(images.ImageReader, context, path="set/a.png", mode="L", resize=5)["image"].shape == (1, 5, 5)
    got = run(images.ImageBatchReader, context, directory="set", resize=4, mode="RGBA")
    assert got["count"] == 2 and got["images"].shape == (2, 4, 4, 4)
    assert got["images"][:, 0, 0, 0].tolist() == [0, 1]
    assert run(images.ImageBatchReader, context, directory="set", max_images=1)["count"] == 1
    with pytest.raises(FileNotFoundError, match="is named like .*; change param 'pattern'"):
        run(images.ImageBatchReader, context, directory="set", pattern="*.jpg")
    with open(os.path.join(context.data_root, "images", "text.png"), "w") as file:
        file.write("no picture")
    with pytest.raises(ValueError, match="is no image that Pillow can read"):
        run(images.ImageReader, context, path="text.png")


def test_pixels():
    assert images.to_pixels(torch.rand(1, 3, 4, 5)).shape == (4, 5, 3)
    assert images.to_pixels(torch.rand(5, 6, 3)).shape == (5, 6, 3)
    assert images.to_pixels(torch.tensor([[300, 7]]).to(torch.uint8)).flatten().tolist() == [44, 7]
    with pytest.raises(ValueError, match="wanted is"):
        images.to_pixels(torch.rand(2, 3, 4, 5))


def test_text_and_numbers_of_a_file(context, tmp_path):
    """Proves B.3."""
    (tmp_path / "project" / "t.csv").write_text("a,name,b\n1,x,2.5\n\n3,y,4\n", encoding="utf-8")
    got = run(io_nodes.FileReader, context, path="t.csv")
    assert got["text"].startswith("a,name,b\n") and got["tensor"].numel() == 0
    assert run(io_nodes.FileReader, context, path="t.csv", mode="csv")["tensor"].tolist() == [[1, 2.5], [3, 4]]
    with pytest.raises(ValueError, match="no column that holds numbers only"):
        run(io_nodes.FileReader, context, path="t.csv", mode="csv", csv_header=False)


@pytest.mark.parametrize("content, params, text", [
    (b"a,b\n1,2\n3\n", dict(mode="csv"), "row 3 of .* has 1 columns and the first 2"),
    (b"a,b\n", dict(mode="csv"), "has no rows of data; param 'csv_header' is True"),
    (b"caf\xe9", dict(), "is not utf-8 text .* at byte 3.; set param 'encoding'"),
    (b"x", dict(encoding="klingon"), "'klingon', which Python doesn't know"),
])
def test_a_text_that_can_not_be_read_is_told(context, tmp_path, content, params, text):
    (tmp_path / "project" / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=text):
        run(io_nodes.FileReader, context, path="t.csv", **params)


def test_latin_1_text(context, tmp_path):
    (tmp_path / "project" / "t.txt").write_bytes(b"caf\xe9")
    assert run(io_nodes.FileReader, context, path="t.txt", encoding="latin-1")["text"] == "café"


@pytest.mark.parametrize("kind, value, wanted", [
    ("string", "hello", "hello"), ("string", "", ""), ("string", 5, "5"), ("number", "1.5", 1.5), ("number", 2, 2.0),
    ("integer", "7", 7), ("integer", 7.0, 7), ("integer", 2**60 + 1, 2**60 + 1), ("boolean", True, True),
    ("boolean", "False", False), ("boolean", "", False), ("json", '{"a": [1]}', {"a": [1]}), ("json", [1], [1]), ("json", "", None),
])
def test_graph_input(context, kind, value, wanted):
    """Proves B.5, D.6."""
    got = run(io_nodes.GraphInput, context, type=kind, default=value)["value"]
    assert got == wanted and type(got) is type(wanted)
    context.api_inputs = {"x": value}
    assert run(io_nodes.GraphInput, context, name="x", type=kind, default="unused")["value"] == wanted


@pytest.mark.parametrize("kind, value", [
    ("number", "many"), ("number", True), ("number", None), ("integer", 1.5), ("integer", "1.5"), ("integer", float("inf")),
    ("boolean", "maybe"), ("boolean", 2), ("json", "{"), ("image", ""), ("image", 5),
])
def test_graph_input_refuses(context, kind, value):
    with pytest.raises(ValueError, match="input 'input' is .*; wanted is"):
        run(io_nodes.GraphInput, context, type=kind, default=value)


def test_graph_input_takes_an_image(context):
    pytest.importorskip("PIL.Image")
    data = base64.b64encode(png.encode(torch.full((2, 4, 3), 255, dtype=torch.uint8))).decode()
    for text in (data, "data:image/png;base64," + data):
        assert run(io_nodes.GraphInput, context, type="image", default=text)["value"].shape == (3, 2, 4)
    with pytest.raises(ValueError, match="not base64"):
        run(io_nodes.GraphInput, context, type="image", default="§")


@pytest.mark.parametrize("name", ["", "1st", "a-b", "x" * 65, "a b", "é"])
def test_names_of_inputs_and_outputs(context, name):
    """Proves B.5."""
    with pytest.raises(ValueError, match="param 'name'"):
        run(io_nodes.GraphInput, context, name=name)
    with pytest.raises(ValueError, match="param 'name'"):
        run(io_nodes.GraphOutput, context, {"value": 1}, name=name)


def test_graph_output_passes_its_value_through(context):
    """Proves B.5."""
    value = object()
    assert run(io_nodes.GraphOutput, context, {"value": value})["value"] is value
