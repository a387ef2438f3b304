"""Category Training: losses, optimizers, schedules, evaluation. The loop itself
is in training_loop.py, the model that it trains in sequential.py."""

from __future__ import annotations

from cdui.node import Node, Param, Port
from cdui.nodes import datasets, devices, losses, optimizers


class Loss(Node):
    """A loss: what training makes small."""

    NODE_NAME = "Loss"
    CATEGORY = "Training"
    DESCRIPTION = "What training makes small."
    DETAILS = "weight and pos_weight are numbers with commas, one a class."

    @classmethod
    def outputs(cls, params=None):
        return [Port("loss_fn", "LOSS_FN")]

    @classmethod
    def params(cls):
        def only(knob):
            return {"type": list(losses.KNOBS[knob])}

        return [
            Param("type", "select", "CrossEntropyLoss", "Which loss.", list(losses.TYPES)),
            Param("label_smoothing", "float", 0.0, "Share of each target given to all classes.", min_value=0.0, max_value=1.0,
                  visible_when=only("label_smoothing"), advanced=True),
            Param("reduction", "select", "mean", "How a batch's losses are put together; none is averaged by the loop.",
                  ["mean", "sum", "none"], advanced=True),
            Param("weight", "string", "", "Weight of each class; empty for 1.", visible_when=only("weight"), advanced=True),
            Param("ignore_index", "int", -100, "The target that doesn't count.", visible_when=only("ignore_index"), advanced=True),
            Param("pos_weight", "string", "", "Weight of yes for each class; empty for 1.", visible_when=only("pos_weight"), advanced=True),
        ]

    def execute(self, inputs, params):
        return {"loss_fn": losses.build(params)}


class Optimizer(Node):
    """An optimizer of the model's trainable parameters."""

    NODE_NAME = "Optimizer"
    CATEGORY = "Training"
    DESCRIPTION = "How the model's parameters follow the gradient."
    DETAILS = "A value that the chosen type doesn't know is an error; the default counts as not set."
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("model", "MODEL")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("optimizer", "OPTIMIZER")]

    @classmethod
    def params(cls):
        return [
            Param("type", "select", "Adam", "Which optimizer.", list(optimizers.TYPES)),
            Param("lr", "float", 0.001, "Learning rate.", min_value=0.0),
            Param("weight_decay", "float", 0.0, "Pull of the parameters towards 0; not for Rprop.", min_value=0.0),
            Param("momentum", "float", 0.0, "SGD and RMSprop.", min_value=0.0, advanced=True),
            Param("betas", "string", "0.9, 0.999", "Averaging of gradient and square: Adam, AdamW, RAdam, NAdam.", advanced=True),
            Param("eps", "float", 1e-8, "Added to the divisor: Adam and its kin, RMSprop, Adagrad.", min_value=0.0, advanced=True),
            Param("amsgrad", "bool", False, "Adam and AdamW.", advanced=True),
            Param("nesterov", "bool", False, "SGD with momentum.", advanced=True),
            Param("dampening", "float", 0.0, "SGD with momentum.", min_value=0.0, advanced=True),
        ]

    def execute(self, inputs, params):
        return {"optimizer": optimizers.build(inputs["model"], params)}


class LRScheduler(Node):
    """A schedule of the optimizer's learning rate, counted in epochs or optimizer
    steps as the loop's scheduler_step says."""

    NODE_NAME = "LRScheduler"
    CATEGORY = "Training"
    DESCRIPTION = "How the learning rate changes while training."
    DETAILS = (
        "MultiStepLR multiplies by gamma at one to four times step_size. CosineAnnealingWarmRestarts restarts every "
        "T_max. ReduceLROnPlateau multiplies by gamma after 10 epochs without a better loss. The warmup types rise over "
        "warmup_steps, then fall to 0 at total_steps or stay."
    )
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("optimizer", "OPTIMIZER")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("scheduler", "ANY")]

    @classmethod
    def params(cls):
        def only(*types):
            return {"type": list(types)}

        warmups = ("warmup_cosine", "warmup_linear", "constant_with_warmup")
        return [
            Param("type", "select", "StepLR", "Which schedule.", list(optimizers.SCHEDULES)),
            Param("step_size", "int", 10, "Steps between two drops.", visible_when=only("StepLR", "MultiStepLR")),
            Param("gamma", "float", 0.1, "What the rate is multiplied by.",
                  visible_when=only("StepLR", "MultiStepLR", "ExponentialLR", "ReduceLROnPlateau")),
            Param("T_max", "int", 50, "Steps of a half wave.", visible_when=only("CosineAnnealingLR", "CosineAnnealingWarmRestarts")),
            Param("max_lr", "float", 0.01, "The highest rate.", visible_when=only("OneCycleLR")),
            Param("total_steps", "int", 1000, "All steps of the training.", visible_when=only("OneCycleLR", *warmups)),
            Param("warmup_steps", "int", 100, "Steps until the full rate.", min_value=0, visible_when=only(*warmups)),
        ]

    def execute(self, inputs, params):
        return {"scheduler": optimizers.schedule(inputs["optimizer"], params)}


class EvaluateModel(Node):
    """The share of a dataset's items that the model puts into the right class."""

    NODE_NAME = "EvaluateModel"
    CATEGORY = "Training"
    DESCRIPTION = "How many items of a dataset the model gets right."
    DETAILS = "Records the series eval_accuracy, with one point. One output a row is taken as a logit: above 0 is yes."
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("model", "MODEL"), Port("dataset", "DATASET")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("accuracy", "SCALAR", "0..1"), Port("correct", "SCALAR"), Port("total", "SCALAR")]

    @classmethod
    def params(cls):
        return [
            Param("batch_size", "int", 256, "Items at a time.", min_value=1),
            Param("device", "select", "cpu", "Where to compute; auto is the run's device.", ["cpu", "cuda", "auto"]),
        ]

    def execute(self, inputs, params, context):
        import torch

        model, device = inputs["model"], devices.choose(params["device"], context)
        loader = torch.utils.data.DataLoader(inputs["dataset"], batch_size=int(params["batch_size"]))
        model.to(device).eval()
        correct = total = 0
        stopped = False
        with torch.no_grad():
            for batch in loader:
                stopped = context.should_stop()
                if stopped:
                    break
                args, named, target = datasets.split_batch(devices.move(batch, device))
                output = model(*args, **named)
                counts = losses.count_correct(output, target)
                if counts is None:
                    raise ValueError(
                        f"the outputs ({_shape(output)}) and labels ({_shape(target)}) are not those of a classifier: "
                        "EvaluateModel needs outputs [batch, classes] and labels [batch]"
                    )
                correct, total = correct + counts[0], total + counts[1]
        accuracy = correct / total if total else 0.0
        result = {"accuracy": accuracy, "correct": correct, "total": total}
        if stopped:
            return {**result, "__interrupted__": {"reason": "stopped", "total": total}}
        context.log_metric("eval_accuracy", accuracy, 0)
        return {**result, "__log__": f"accuracy {accuracy:.4f} ({correct} of {total})"}


def _shape(value):
    return str(list(value.shape)) if hasattr(value, "shape") else type(value).__name__


class BackwardOnce(Node):
    """Computes the gradients of the sum of a tensor; passes the tensor through."""

    NODE_NAME = "BackwardOnce"
    CATEGORY = "Training"
    DESCRIPTION = "Runs the backward pass once, from the sum of a tensor."
    cacheable = False

    @classmethod
    def inputs(cls, params=None):
        return [Port("tensor", "TENSOR")]

    @classmethod
    def outputs(cls, params=None):
        return [Port("tensor", "TENSOR", "the input itself")]

    def execute(self, inputs, params):
        tensor = inputs["tensor"]
        if not tensor.requires_grad:
            raise ValueError("the tensor depends on nothing that has gradients: set requires_grad on TensorCreate, or put a layer before it")
        # Another node may go backward through the same operations.
        tensor.sum().backward(retain_graph=True)
        return {"tensor": tensor}


NODES = [BackwardOnce, EvaluateModel, LRScheduler, Loss, Optimizer]
