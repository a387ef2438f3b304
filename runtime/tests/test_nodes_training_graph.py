"""A training as a graph, executed by the engine: seeds, stopping, going on from the checkpoint."""
import pytest

import engines

pytest.importorskip("torch")

LAYERS = (
    '{"version":2,"nodes":[{"id":"in","type":"Input","ports":[{"id":"x","name":"x"}]},{"id":"f","type":"Flatten"},'
    '{"id":"a","type":"Linear","params":{"in_features":192,"out_features":16}},{"id":"r","type":"ReLU"},'
    '{"id":"b","type":"Linear","params":{"in_features":16,"out_features":3}},{"id":"out","type":"Output","ports":[{"id":"y","name":"y"}]}],'
    '"edges":[{"source":"in","sourceHandle":"x","target":"f"},{"source":"f","target":"a"},{"source":"a","target":"r"},'
    '{"source":"r","target":"b"},{"source":"b","target":"out","targetHandle":"y"}]}'
)


def graph(epochs=4, checkpoint="", shuffle=True, workers=0):
    nodes = [
        ("images", "SyntheticShapes", {"image_size": 8, "n_samples": 60}),
        ("loader", "DataLoader", {"batch_size": 8, "shuffle": shuffle, "num_workers": workers}),
        ("model", "SequentialModel", {"layers": LAYERS}), ("loss", "Loss", {}), ("optimizer", "Optimizer", {"lr": 0.01}),
        ("schedule", "LRScheduler", {"type": "MultiStepLR", "step_size": 1, "gamma": 0.5}),
        ("loop", "TrainingLoop", {"epochs": epochs}), ("right", "EvaluateModel", {}),
    ]
    edges = ["images.dataset>loader.dataset", "loader.dataloader>loop.dataloader", "loss.loss_fn>loop.loss_fn",
             "optimizer.optimizer>schedule.optimizer", "model.model>optimizer.model", "loop.model>right.model", "images.dataset>right.dataset"]
    if checkpoint:
        nodes.append(("saved", "CheckpointLoader", {"path": checkpoint}))
        edges += ["model.model>saved.model", "optimizer.optimizer>saved.optimizer", "schedule.scheduler>saved.lr_scheduler",
                  "saved.model>loop.model", "saved.optimizer>loop.optimizer", "saved.lr_scheduler>loop.lr_scheduler", "saved.epoch>loop.start_epoch"]
    else:
        edges += ["model.model>loop.model", "optimizer.optimizer>loop.optimizer", "schedule.scheduler>loop.lr_scheduler"]
    return engines.graph(nodes, edges)


def run(tmp_path, prepared, **more):
    return engines.run(prepared, builtin=True, **{"seed": 5, "run_id": "r", "data_root": str(tmp_path), "search_dirs": [str(tmp_path)], **more})


def test_the_same_seed_gives_the_same_losses(tmp_path):
    """Proves C.11."""
    first = run(tmp_path, graph())
    assert first.outcome.status == "succeeded", first.outcome.error
    curve = first.points("train_loss")
    assert [step for step, _ in curve] == [1, 2, 3, 4] and curve[-1][1] < curve[0][1]
    assert first.points("lr") == [(1, 0.01), (2, 0.005), (3, 0.0025), (4, 0.00125)] and len(first.points("eval_accuracy")) == 1
    assert run(tmp_path, graph()).points("train_loss") == curve
    assert run(tmp_path, graph(workers=2)).points("train_loss") == curve
    assert run(tmp_path, graph(), seed=6).points("train_loss") != curve


def test_a_stopped_training_goes_on_from_its_checkpoint(tmp_path):
    """Proves B.5, C.20."""
    whole = run(tmp_path, graph(shuffle=False)).points("train_loss")
    stopping = graph(shuffle=False)
    stopping["nodes"][6]["params"]["checkpoint_every"] = 2
    run(tmp_path, stopping)
    checkpoint = tmp_path / "models" / "periodic" / "r-loop-epoch-00002.pt"
    resumed = run(tmp_path, graph(shuffle=False, checkpoint=str(checkpoint)))
    assert resumed.outcome.status == "succeeded", resumed.outcome.error
    assert resumed.points("train_loss") == whole[2:] and resumed.points("lr") == [(3, 0.0025), (4, 0.00125)]


def test_a_training_that_was_stopped_midway_leaves_a_checkpoint(tmp_path):
    """Proves C.20, C.10."""
    left = [20]

    def later():
        left[0] -= 1
        return left[0] < 0

    stopped = run(tmp_path, graph(epochs=50), should_stop=later)
    assert stopped.outcome.status == "cancelled" and stopped.statuses("loop") == ["running", "interrupted"]
    (artifact,) = stopped.of("artifact")
    assert artifact["kind"] == "checkpoint" and artifact["meta"]["reason"] == "interrupted" and artifact["meta"]["node_id"] == "loop"
    done = artifact["meta"]["epoch"]
    resumed = run(tmp_path, graph(epochs=done + 2, checkpoint="interrupted/r-loop.pt"))
    assert resumed.outcome.status == "succeeded" and [step for step, _ in resumed.points("train_loss")] == [done + 1, done + 2]
