"""IO: saving, loading and applying models.

Files lie under models/ of the data folder. They are written under a temporary
name first, so that a file is whole or absent.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, Mapping

from cdui.node import Node, Param, Port, need
from cdui.nodes import checkpoints, devices, files
from cdui.nodes import weights as weights_file

DEVICES = ("auto", "cpu", "cuda", "mps")
FOLDER = "models"


def device_param() -> Param:
    return Param("device", "select", "auto", "where the model goes; auto is the run's device", options=DEVICES)


def apply_weights(model: Any, weights: Mapping[str, Any], path: str, strict: bool) -> None:
    """Loads a state dict into a model; what does not fit becomes a sentence."""
    try:
        model.load_state_dict(weights, strict=strict)
    except RuntimeError as error:
        raise ValueError(f"the weights in {path} don't fit the wired model: {' '.join(str(error).split())}") from None


class ModelSaver(Node):
    NODE_NAME = "ModelSaver"
    CATEGORY = "IO"
    DESCRIPTION = "Saves a model's weights, or the model whole, under models/ of the data folder."
    DETAILS = "Weights are saved as CPU tensors. safetensors holds weights only and forces the suffix .safetensors."
    cacheable = False
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("model", "MODEL", "the model")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("path", "STRING", "absolute path of the file"), Port("model", "MODEL", "the model, unchanged")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("path", "string", "model_weights.pt", "the file, relative to models/"),
            Param("save_mode", "select", "state_dict", "weights alone, or the model whole (pickled)", options=("state_dict", "full_model")),
            Param("format", "select", "pytorch", "form of the file", options=("pytorch", "safetensors")),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        model, path = inputs["model"], str(params["path"])
        as_safetensors = params["format"] == "safetensors"
        if as_safetensors and params["save_mode"] != "state_dict":
            raise ValueError("param 'format' safetensors holds weights only; set save_mode to state_dict or format to pytorch")
        if as_safetensors and os.path.basename(path) and not path.endswith(".safetensors"):
            path = os.path.splitext(path)[0] + ".safetensors"
        place = files.target(path, context, FOLDER)
        with files.replacing(place) as temporary:
            save_model(model, temporary, as_safetensors, whole=params["save_mode"] == "full_model")
        context.log_artifact("model", place, {"save_mode": params["save_mode"], "format": params["format"]})
        return {"path": place, "model": model}


def save_model(model: Any, path: str, as_safetensors: bool, whole: bool) -> None:
    import torch

    if whole:
        try:
            torch.save(model, path)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(f"this model can't be saved whole ({error}); set save_mode to state_dict") from None
        return
    weights = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    if as_safetensors:
        writer = need("safetensors.torch", "safetensors", "format safetensors")
        # The format refuses tensors that share memory, as tied weights do.
        writer.save_file({name: value.clone().contiguous() for name, value in weights.items()}, path)
    else:
        torch.save(weights, path)


class ModelLoader(Node):
    NODE_NAME = "ModelLoader"
    CATEGORY = "IO"
    DESCRIPTION = "Loads weights into the wired model, or a model saved whole."
    DETAILS = ("full_model runs code from the file: load only files that you trust. A checkpoint counts as weights too. "
               "A relative path is tried in models/ of the data folder, then in the search folders.")
    cacheable = False
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("model", "MODEL", "takes the weights; needed for state_dict", optional=True)]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("model", "MODEL", "the model, on the device")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("path", "model_file", "", "the file"),
            Param("load_mode", "select", "state_dict", "weights alone, or a model saved whole", options=("state_dict", "full_model")),
            device_param(),
            Param("strict", "bool", True, "whether the names of the weights must all match"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        import torch

        path = files.find(params["path"], context, own=FOLDER)
        device = devices.choose(params["device"], context)
        if params["load_mode"] == "full_model":
            model = torch.load(path, map_location=device, weights_only=False)
            if not isinstance(model, torch.nn.Module):
                raise ValueError(f"{path} holds a {type(model).__name__}, no model; set load_mode to state_dict")
            return {"model": model.to(device)}
        model = inputs.get("model")
        if model is None:
            raise ValueError("load_mode state_dict needs a model to load the weights into; wire one to 'model'")
        if path.endswith(".safetensors"):
            weights = need("safetensors.torch", "safetensors", "format safetensors").load_file(path)
        else:
            weights = weights_file.read(path)
        if isinstance(weights, dict):
            weights = weights.get("model_state_dict", weights)
        if not isinstance(weights, Mapping):
            raise ValueError(f"{path} holds a {type(weights).__name__}, no weights by name; give a file that ModelSaver wrote")
        apply_weights(model, weights, path, bool(params["strict"]))
        return {"model": model.to(device)}


class CheckpointSaver(Node):
    NODE_NAME = "CheckpointSaver"
    CATEGORY = "IO"
    DESCRIPTION = "Saves the state of a training, to be gone on with later."
    DETAILS = "The file holds epoch, model_state_dict, optimizer_state_dict and what else is wired."
    cacheable = False
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("model", "MODEL", "the model"),
            Port("optimizer", "OPTIMIZER", "its optimizer"),
            Port("losses", "TENSOR", "loss of each epoch, (epochs)", optional=True),
            Port("lr_scheduler", "ANY", "its scheduler", optional=True),
            Port("grad_scaler_state", "ANY", "state of the gradient scaler (fp16)", optional=True),
        ]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("path", "STRING", "absolute path of the file"), Port("model", "MODEL", "the model, unchanged")]

    @classmethod
    def params(cls) -> list[Param]:
        return [
            Param("path", "string", "checkpoint.pt", "the file, relative to models/"),
            Param("epoch", "int", 0, "completed epochs"),
        ]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        content = checkpoints.state(
            params["epoch"], inputs["model"], inputs["optimizer"], losses=inputs.get("losses"),
            scheduler=inputs.get("lr_scheduler"), grad_scaler_state=inputs.get("grad_scaler_state"))
        place = files.target(params["path"], context, FOLDER)
        checkpoints.save(content, place)
        context.log_artifact("checkpoint", place, {"epoch": content["epoch"]})
        return {"path": place, "model": inputs["model"]}


class CheckpointLoader(Node):
    NODE_NAME = "CheckpointLoader"
    CATEGORY = "IO"
    DESCRIPTION = "Loads the state of a training into a model and its optimizer."
    DETAILS = ("The optimizer is bound to the parameters of the wired model. "
               "A relative path is tried in models/ of the data folder, then in the search folders.")
    cacheable = False
    align_inputs = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("model", "MODEL", "takes the weights"),
            Port("optimizer", "OPTIMIZER", "takes the optimizer's state"),
            Port("lr_scheduler", "ANY", "takes the scheduler's state, where the file holds one", optional=True),
            Port("grad_scaler_state", "ANY", "passed on where the file holds none", optional=True),
        ]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [
            Port("model", "MODEL", "the model, on the device"),
            Port("optimizer", "OPTIMIZER", "the optimizer of that model"),
            Port("epoch", "SCALAR", "completed epochs"),
            Port("losses", "TENSOR", "loss of each epoch, (epochs); empty where the file holds none"),
            Port("lr_scheduler", "ANY", "the wired scheduler"),
            Port("grad_scaler_state", "ANY", "state of the gradient scaler (fp16)"),
        ]

    @classmethod
    def params(cls) -> list[Param]:
        return [Param("path", "model_file", "", "the file"), device_param()]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        import torch

        path = files.find(params["path"], context, own=FOLDER)
        content = weights_file.read(path)
        missing = [key for key in ("model_state_dict", "optimizer_state_dict") if not isinstance(content, dict) or key not in content]
        if missing:
            raise ValueError(f"{path} is no checkpoint: it has no {' and no '.join(missing)}; give a file that CheckpointSaver wrote")
        model, optimizer, scheduler = inputs["model"], inputs["optimizer"], inputs.get("lr_scheduler")
        apply_weights(model, content["model_state_dict"], path, strict=True)
        model.to(devices.choose(params["device"], context))
        bind(optimizer, model, content["optimizer_state_dict"], path)
        if scheduler is not None and "scheduler_state_dict" in content:
            scheduler.load_state_dict(content["scheduler_state_dict"])
        losses = content.get("losses")
        return {
            "model": model,
            "optimizer": optimizer,
            "epoch": content.get("epoch", 0),
            "losses": torch.empty(0) if losses is None else torch.as_tensor(losses),
            "lr_scheduler": scheduler,
            "grad_scaler_state": content.get("grad_scaler_state", inputs.get("grad_scaler_state")),
        }


def bind(optimizer: Any, model: Any, state: Mapping[str, Any], path: str) -> None:
    """Points an optimizer at a model's parameters, in their order, and loads
    its state, which then lies where the parameters lie."""
    parameters = list(model.parameters())
    held = [len(group["params"]) for group in optimizer.param_groups]
    if sum(held) == len(parameters):
        rest = iter(parameters)
        for group, number in zip(optimizer.param_groups, held):
            group["params"] = [next(rest) for _ in range(number)]
        optimizer.state.clear()
    try:
        optimizer.load_state_dict(dict(state))
    except (ValueError, KeyError) as error:
        raise ValueError(f"the optimizer state in {path} doesn't fit the wired optimizer: {error}") from None


class Inference(Node):
    NODE_NAME = "Inference"
    CATEGORY = "IO"
    DESCRIPTION = "Applies a model to an input, without gradients and in evaluation mode."
    cacheable = False

    @classmethod
    def inputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("model", "MODEL", "the model"), Port("input", "TENSOR", "what the model takes")]

    @classmethod
    def outputs(cls, params: Mapping[str, Any] | None = None) -> list[Port]:
        return [Port("output", "TENSOR", "what the model gives"), Port("model", "MODEL", "the model, on the device")]

    @classmethod
    def params(cls) -> list[Param]:
        return [device_param()]

    def execute(self, inputs: dict[str, Any], params: dict[str, Any], context: Any) -> dict[str, Any]:
        import torch

        device = devices.choose(params["device"], context)
        model = inputs["model"].to(device)
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                return {"output": model(devices.move(inputs["input"], device)), "model": model}
        finally:
            model.train(training)


NODES = [CheckpointLoader, CheckpointSaver, Inference, ModelLoader, ModelSaver]
