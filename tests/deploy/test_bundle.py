"""Bundles: what is written is read back to the bit, and what is not as written is refused."""

import contextlib
import dataclasses
import hashlib
import io
import json
import pickle
import random
import time
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from deployed import bundled

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.deploy import bundle
from slewrl.deploy.bundle import HEADER, MAGIC, BundleError, read
from slewrl.deploy.c_export import policy_header
from slewrl.deploy.check import check
from slewrl.deploy.controller import Controller, session

pytest.importorskip("onnxscript", reason='ONNX is not installed: pip install "slewrl[onnx]"')


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return bundled(tmp_path_factory.mktemp("bundle"))


def sealed(parts, compression=zipfile.ZIP_STORED, version=1):
    """A file whose first line vouches for whatever is in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    body = buffer.getvalue()
    return MAGIC + f"{version:3d} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def parts_of(path):
    with zipfile.ZipFile(path) as archive:  # as unzip would
        return {name: archive.read(name) for name in archive.namelist()}


def refused(tmp_path, data, message=None):
    path = tmp_path / "x.bundle"
    path.write_bytes(data)
    with pytest.raises(BundleError, match=message) as caught:
        read(path)
    assert "x.bundle" in str(caught.value)


def test_it_holds_all_a_robot_needs(made):
    found = read(made)
    expected = RateLimits.preset("Pendulum-v1", "tight")
    for key in ("up", "down", "low", "high"):
        assert np.array_equal(getattr(found.limits, key), getattr(expected, key)), key  # to the bit, through decimals
    assert found.limits.names == expected.names and found.limits.dt == pytest.approx(0.05)
    assert found.observation == (("observation", 3),) and np.array_equal(found.default_pose, [0.0])
    assert found.manifest["provenance"]["spec"]["seed"] == 12345 and found.manifest["provenance"]["step"] == 300
    assert found.manifest["provenance"]["trained_with"]["torch"]


def test_the_budget_is_read_inward_and_need_not_be_there(made):
    parts = parts_of(made)
    manifest = json.loads(parts["manifest.json"])
    assert manifest["budget"] is None and read(made).budget is None  # of another layer

    def budget(text):
        return bundle.parse(sealed({**parts, "manifest.json": json.dumps({**manifest, "budget": text})})).budget

    assert budget("0.25") == 0.25 and budget("1") == 1.0
    for text in ("0.3", "0.1"):  # the nearest float is below the first, above the second
        assert Fraction(budget(text)) <= Fraction(text) < Fraction(np.nextafter(budget(text), 1.0))
    del manifest["budget"]  # as it was before there were any
    assert bundle.parse(sealed({**parts, "manifest.json": json.dumps(manifest)})).budget is None


def test_onnx_metadata_is_under_mjlabs_keys(made):
    import onnx

    entries = {entry.key: entry.value for entry in onnx.load_from_string(read(made).onnx).metadata_props}
    assert entries["joint_names"] == ",".join(read(made).limits.names)
    assert {"run_path", "default_joint_pos", "action_scale", "observation_names", "dt"} <= set(entries)
    assert [float(x) for x in entries["action_scale"].split(",")] == [1.0]


def test_nothing_tells_of_the_machine_it_was_made_on(made):
    """torch notes in every node the files and lines it was traced through."""
    data = made.read_bytes()
    assert b".py" not in data


def test_the_same_policy_gives_the_same_bytes(made, tmp_path):
    from slewrl.deploy.export import export_bundle

    export_bundle(made.parent / "run", tmp_path / "again.bundle")
    assert (tmp_path / "again.bundle").read_bytes() == made.read_bytes()


def test_three_hundred_bit_flips_are_refused(made, tmp_path):
    whole, rng = made.read_bytes(), random.Random(0)
    places = [*range(HEADER * 8), *(rng.randrange(len(whole) * 8) for _ in range(300))]
    for place in places:
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        refused(tmp_path, bytes(data), "no slewrl bundle|cut off|has format|is damaged")


def test_fifty_truncations_are_refused(made, tmp_path):
    whole, rng = made.read_bytes(), random.Random(1)
    for length in [0, 1, HEADER - 1, HEADER, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(45))]:
        refused(tmp_path, whole[:length])
    refused(tmp_path, whole + b"\0", "damaged")


def test_swapped_parts_are_refused(made, tmp_path):
    parts = parts_of(made)
    other = {**parts, "policy.onnx": parts["policy.onnx"] + b" "}
    refused(tmp_path, sealed(other), "policy.onnx is not the one")
    refused(tmp_path, sealed({"manifest.json": parts["policy.onnx"], "policy.onnx": parts["manifest.json"]}))
    refused(tmp_path, sealed(dict(reversed(parts.items()))), "expected manifest.json and policy.onnx")
    refused(tmp_path, sealed({"manifest.json": parts["manifest.json"]}), "expected manifest.json and policy.onnx")


def test_other_versions_are_refused(made, tmp_path):
    refused(tmp_path, sealed(parts_of(made), version=2), "format b'2', expected 1")


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was run')",)


def test_a_pickle_is_never_run(made, tmp_path):
    parts, bomb = parts_of(made), pickle.dumps(Bomb())
    refused(tmp_path, bomb, "no slewrl bundle")
    refused(tmp_path, sealed({**parts, "extra.pkl": bomb}), "extra.pkl")
    refused(tmp_path, sealed({"manifest.json": bomb, "policy.onnx": parts["policy.onnx"]}), "not understood")
    manifest = json.loads(parts["manifest.json"])
    manifest["parts"] = {"policy.onnx": hashlib.sha256(bomb).hexdigest()}
    refused(tmp_path, sealed({"manifest.json": json.dumps(manifest), "policy.onnx": bomb}), "policy.onnx is refused")


def test_compressed_parts_are_refused(made, tmp_path):
    refused(tmp_path, sealed(parts_of(made), zipfile.ZIP_DEFLATED), "compressed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["joints"][0].update(up="0"), "up of .* expected a positive finite rate"),
        (lambda m: m["joints"][0].update(up="nan"), "finite number"),
        (lambda m: m["joints"][0].update(up="1e99999999"), "expected a decimal"),
        (lambda m: m["joints"][0].update(up="1/3"), "expected a decimal"),
        (lambda m: m["joints"][0].update(up="9" * 399), "expected a finite"),
        (lambda m: m.update(dt="-1"), "dt is -1.0, expected a positive"),
        (lambda m: m.update(dt="0"), "dt is 0.0"),
        (lambda m: m.update(dt="NaN"), "expected a decimal"),
        (lambda m: m.update(budget="0"), r"budget is 0, expected a number in \(0, 1\]"),
        (lambda m: m.update(budget="-0.5"), "budget is -0.5"),
        (lambda m: m.update(budget="1.0000000000000000001"), "budget is 1.0000000000000000001, expected"),
        (lambda m: m.update(budget="0." + "0" * 400 + "1"), "budget is 0.000"),
        (lambda m: m.update(budget="9" * 400), "budget is 999"),
        (lambda m: m.update(budget="inf"), "expected a decimal"),
        (lambda m: m.update(budget=0.5), "expected a decimal"),
        (lambda m: m.update(observation=[{"name": "x", "size": -5}, {"name": "y", "size": 8}]), "has size -5"),
        (lambda m: m["joints"][0].update(low="9"), "is not below high"),
        (lambda m: m["joints"][0].pop("down"), "down"),
        (lambda m: m.pop("joints"), "joints"),
        (lambda m: m.update(default_pose=["0", "0"]), "default_pose has 2 entries, expected 1"),
        (lambda m: m.update(default_pose=["x"]), "not understood"),
        (lambda m: m.update(observation=[{"name": "observation"}]), "size"),
        (lambda m: m.pop("parts"), "parts"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(made, tmp_path, change, message):
    parts = parts_of(made)
    manifest = json.loads(parts["manifest.json"])
    change(manifest)
    refused(tmp_path, sealed({**parts, "manifest.json": json.dumps(manifest)}), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("provenance"), "provenance is missing, expected an object"),
        (lambda m: m.update(provenance=[]), r"provenance is \[\], expected an object"),
        (lambda m: m["provenance"].pop("step"), "provenance.step is missing, expected a whole number"),
        (lambda m: m["provenance"].update(step="x"), "provenance.step is 'x', expected a whole number"),
        (lambda m: m["provenance"].update(step=True), "provenance.step is True"),
        (
            lambda m: m["provenance"].pop("spec"),
            "does not say with which layer .* provenance.spec is missing",
        ),
        (lambda m: m["provenance"].update(spec=[]), r"provenance.spec is \[\], expected an object"),
        (lambda m: m["provenance"]["spec"].pop("layer"), "provenance.spec.layer is missing, expected text"),
        (lambda m: m["provenance"]["spec"].update(layer=5), "provenance.spec.layer is 5, expected text"),
        (lambda m: m["provenance"]["spec"].update(agent_options=[]), r"provenance.spec.agent_options is \[\]"),
        (lambda m: m["provenance"]["spec"].pop("seed"), "provenance.spec.seed is missing, expected a whole number or"),
    ],
)
def test_an_odd_provenance_is_named_by_those_who_read_it(made, tmp_path, change, message):
    """The controller needs none, and takes the bundle."""
    changed = with_manifest(made, tmp_path / "odd.bundle", change)
    Controller(changed)
    with pytest.raises(BundleError, match=message):
        check(changed, 100, 0, print)
    with pytest.raises(BundleError, match=message):
        policy_header(read(changed))


@pytest.mark.parametrize("odd", [{"layer_options": {"zz": 1}}, {"layer": "zz"}, {"density": "zz"}])
def test_a_layer_that_cannot_be_made_is_named(made, tmp_path, odd):
    changed = with_manifest(made, tmp_path / "odd.bundle", lambda m: m["provenance"]["spec"].update(odd))
    with pytest.raises(BundleError, match=r"its layer .* cannot be made: .*zz"):
        check(changed, 100, 0, print)


def with_manifest(made, path, change):
    """The bundle with a changed manifest, as its digests say."""
    found = read(made)
    change(found.manifest)
    bundle.write(path, found.manifest, found.onnx)
    return path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"dt"', '"dt": "9", "dt"'),
        ('"budget"', '"budget": "1", "budget"'),
        ('"up"', '"up": "9", "up"'),
        ('"policy.onnx"', '"policy.onnx": "x", "policy.onnx"'),
    ],
)
def test_a_key_that_is_there_twice_is_refused(made, tmp_path, old, new):
    """Of two, readers of JSON differ in which they take: one may show a person what another does not run."""
    parts = parts_of(made)
    text = parts["manifest.json"].decode()
    assert old in text
    refused(
        tmp_path, sealed({**parts, "manifest.json": text.replace(old, new, 1)}), f"the key '{old[1:-1]}' is there twi"
    )


def test_many_keys_take_no_time(made, tmp_path):
    """Looking each of them up in all the others took minutes."""
    parts = parts_of(made)
    manifest = {**json.loads(parts["manifest.json"]), "more": {str(k): 0 for k in range(20_000)}}
    data = sealed({**parts, "manifest.json": json.dumps(manifest)})
    begun = time.perf_counter()
    bundle.parse(data)
    twice = [{**manifest["joints"][0], "name": f"joint{k}"} for k in (*range(20_000), 0)]
    refused(tmp_path, sealed({**parts, "manifest.json": json.dumps({**manifest, "joints": twice})}), "duplicate joint")
    assert time.perf_counter() - begun < 5


# ---------------------------------------------------------------------- graphs that ONNX Runtime would load


def resealed(made, graph):
    """The bundle with another graph, and digests that vouch for it."""
    parts = parts_of(made)
    manifest = json.loads(parts["manifest.json"])
    manifest["parts"] = {"policy.onnx": hashlib.sha256(graph).hexdigest()}
    return sealed({"manifest.json": json.dumps(manifest), "policy.onnx": graph})


def external(model):
    """Let the first array be in a file, as ONNX writes that."""
    import onnx

    tensor = model.graph.initializer[0]
    entry = tensor.external_data.add()
    entry.key, entry.value, tensor.data_location = "location", "weights.bin", onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")


def test_weights_in_another_file_are_refused(made, tmp_path, monkeypatch):
    """ONNX Runtime would read them from wherever it is started; also where their key is spelt in two bytes."""
    import onnx
    import onnxruntime

    model = onnx.load_from_string(parts_of(made)["policy.onnx"])
    (tmp_path / "weights.bin").write_bytes(model.graph.initializer[0].raw_data)
    external(model)
    plain = model.SerializeToString()
    refused(tmp_path, resealed(made, plain), "initializer keeps weights in another file")
    usual, longer = b"\x0a\x08location", b"\x8a\x00\x08location"

    def grown(data, fields):
        """The same message with the other key, and the lengths of those around it to match."""
        out = b""
        while data:
            tag, data = data[0], data[1:]
            size, data = varint(data)
            if tag & 7 != 2:
                out += bytes([tag]) + wire(size)
                continue
            part, data = data[:size], data[size:]
            if tag == fields[0]:
                part = grown(part, fields[1:]) if fields[1:] else part.replace(usual, longer)
            out += bytes([tag]) + wire(len(part)) + part
        return out

    spelt = grown(plain, [0x3A, 0x2A, 0x6A])  # graph, initializer, external_data
    assert usual not in spelt and longer in spelt
    monkeypatch.chdir(tmp_path)
    onnxruntime.InferenceSession(spelt, providers=["CPUExecutionProvider"])  # it does load them
    refused(tmp_path, resealed(made, spelt), "initializer keeps weights in another file")


def varint(data):
    """A number, and what follows it."""
    for count, byte in enumerate(data):
        if byte < 128:
            return sum((b & 127) << 7 * i for i, b in enumerate(data[: count + 1])), data[count + 1 :]


def wire(number):
    """A number as protobuf writes it."""
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + wire(number >> 7)


def node(model, kind, **fields):
    """Put an operator into the graph."""
    import onnx

    model.graph.node.insert(0, onnx.helper.make_node(kind, ["observation"], ["unused"], **fields))


def doubled(model, times):
    """Join a value with itself, and what comes of it with itself, and so on."""
    import onnx

    for k in range(times):
        name = f"twice{k - 1}" if k else "observation"
        model.graph.node.append(onnx.helper.make_node("Concat", [name, name], [f"twice{k}"], axis=1))


def subgraph():
    import onnx

    return onnx.helper.make_graph([], "inner", [], [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: node(m, "Loop", body=subgraph()), "keeps a subgraph, which no export writes"),
        (lambda m: node(m, "If", then_branch=subgraph(), else_branch=subgraph()), "keeps a subgraph"),
        *((lambda m, kind=kind: node(m, kind), f"operator '{kind}', which no") for kind in ("Loop", "If", "Scan")),
        (lambda m: node(m, "Relu", body=subgraph()), "attribute keeps a subgraph"),
        (lambda m: node(m, "RandomNormalLike"), "operator 'RandomNormalLike'"),
        (lambda m: node(m, "Relu", domain="com.microsoft"), "operator 'com.microsoft.Relu'"),
        (lambda m: node(m, "Gemm", transB=1), None),
        (lambda m: m.functions.add(name="Relu"), "model keeps functions of its own"),
        (lambda m: m.training_info.add(), "model keeps a training graph"),
        (lambda m: m.graph.sparse_initializer.add(), "graph keeps sparse weights"),
        (lambda m: m.graph.quantization_annotation.add(), "graph keeps field 14"),
        (lambda m: m.opset_import.add(domain="com.microsoft", version=1), "imports the operators of"),
        (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "it has array .* twice"),
        (lambda m: m.graph.initializer[0].dims.insert(0, 2), "do not fit each other"),
        (lambda m: m.graph.initializer[0].float_data.append(1.0), "initializer keeps field 4"),
        (lambda m: m.graph.node[0].attribute.append(m.graph.node[0].attribute[0]), "attribute 'axis' twice"),
        (lambda m: setattr(m.graph.node[0].attribute[0], "f", 2.0), "attribute 'axis' has"),
        (lambda m: m.ClearField("graph"), "it has no graph"),
        (lambda m: doubled(m, 30), "join 2,147,483,648 times"),
        (lambda m: doubled(m, 11), None),
    ],
)
def test_a_graph_that_no_export_writes_is_refused(made, tmp_path, change, message):
    import onnx

    model = onnx.load_from_string(parts_of(made)["policy.onnx"])
    change(model)
    data = resealed(made, model.SerializeToString())
    if message is None:
        bundle.parse(data)  # the attacks above are refused for what they are
    else:
        refused(tmp_path, data, message)


def test_a_file_that_onnx_runtime_would_read_as_another_format_is_refused(made, tmp_path):
    """Bytes 4 to 8 make ONNX Runtime read a flatbuffer: another policy, in a file checked as protobuf."""
    import onnxruntime

    graph = parts_of(made)["policy.onnx"]
    assert graph.startswith(b"\x08\x0a\x12")  # ir_version 10, producer_name
    size = 3 + 1 + graph[3]
    both = b"\x08\x0a\x12\x04ORTM" + graph[size:]
    refused(tmp_path, resealed(made, both), "ORT format")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "policy.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    other = (tmp_path / "policy.ort").read_bytes()
    onnxruntime.InferenceSession(other, providers=["CPUExecutionProvider"])  # it does load it
    with pytest.raises(BundleError, match="ONNX Runtime cannot load the policy"):
        session(dataclasses.replace(read(made), onnx=other))


def test_protobuf_that_can_be_read_in_two_ways_is_refused(made, tmp_path):
    """Readers merge a message that comes twice, take the last of two numbers, and skip what they do not know."""
    graph = parts_of(made)["policy.onnx"]
    assert graph.startswith(b"\x08\x0a")  # ir_version 10
    for attack, message in (
        (graph + b"\x3a\x00", "model has 'graph' twice"),
        (graph + b"\x08\x09", "model has 'ir_version' twice"),
        (b"\x88\x00" + graph[1:], "in another way than protobuf does"),
        (b"\x08\x8a\x00" + graph[2:], "in another way than protobuf does"),
        (b"\x0a\x01\x0a" + graph[2:], "another way than expected .wire type 2"),
        (b"\x08" + b"\xff" * 9 + b"\x7f" + graph[2:], "in another way than protobuf does"),
        (graph + b"\xfa\x3f\x00", "model keeps field 1023"),
        (graph + b"\xff", "cut off"),
        (graph[:-1], "cut off"),
        (graph + b"\x12\x7fx", "cut off"),
        (b"", "imports the operators of"),
    ):
        refused(tmp_path, resealed(made, attack), message)


def test_a_damaged_graph_behind_good_digests_is_refused_or_says_so(made):
    graph, rng = bytearray(parts_of(made)["policy.onnx"]), random.Random(3)
    for _ in range(300):
        data = bytearray(graph)
        data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(BundleError):  # or the change was of no account, such as a digit of a weight
            bundle.parse(resealed(made, bytes(data)))


def test_the_reader_agrees_with_onnxs(made):
    import onnx

    from slewrl.deploy.graph import read_graph

    graph = onnx.load_from_string(read(made).onnx).graph
    ours = read_graph(read(made).onnx)
    assert [(n.op_type, n.name, n.input, n.output) for n in ours.nodes] == [
        (n.op_type, n.name, tuple(n.input), tuple(n.output)) for n in graph.node
    ]
    for theirs, node in zip(graph.node, ours.nodes, strict=True):
        assert node.attributes == {entry.name: onnx.helper.get_attribute_value(entry) for entry in theirs.attribute}
    assert set(ours.stored) == {tensor.name for tensor in graph.initializer}
    for tensor in graph.initializer:
        expected = onnx.numpy_helper.to_array(tensor)
        assert ours.stored[tensor.name].dtype == expected.dtype
        assert np.array_equal(ours.stored[tensor.name], expected)


def test_the_bundle_of_the_results_is_read():
    from pathlib import Path

    assert read(Path(__file__).parents[2] / "results" / "walk" / "g1-flat-ddsrad.bundle").limits.names


def test_every_layers_graph_is_read():
    """In one graph, whose nodes are those of all of them: an export takes its time."""
    from torch import nn

    from slewrl.deploy.export import DeployedPolicy, to_onnx
    from slewrl.deploy.graph import read_graph

    class EveryLayer(DeployedPolicy):
        def forward(self, observation, previous_action):
            latent = self._latent(observation, previous_action, None)
            return sum(make_layer(name).exported(*latent) for name in LAYERS)

    limits = RateLimits(up=[0.1, 0.2], down=[0.1, 0.3], low=-1, high=1, names=["a", "b"])
    net = nn.Sequential(nn.Linear(5, 4), nn.ELU(), nn.Linear(4, 2))  # an activation that Stable-Baselines3 may have
    manifest = {"joints": bundle.joint_rows(limits), "default_pose": [], "action_scale": [], "observation": []}
    data = to_onnx(
        EveryLayer(net, make_layer("ddsrad"), limits).eval(), (3, 2), {**manifest, "name": "", "dt": None, "units": ""}
    )
    assert len(read_graph(data).nodes) > 10 * len(LAYERS)


def test_damage_behind_a_good_digest_is_refused(made, tmp_path):
    """The reader itself, not the digest, meets broken archives and manifests."""
    whole, rng = made.read_bytes(), random.Random(2)
    for _ in range(300):
        body = bytearray(whole[HEADER:])
        for place in (rng.randrange(len(body) - 400, len(body)), rng.randrange(3_000)):
            body[place] = rng.randrange(256)
        path = tmp_path / "x.bundle"
        path.write_bytes(MAGIC + f"  1 {hashlib.sha256(body).hexdigest()}\n".encode() + body)
        with contextlib.suppress(BundleError):  # or the change was of no account, such as a letter of a name
            read(path)
    refused(tmp_path, sealed({"manifest.json": "[" * 200_000, "policy.onnx": ""}), "not understood")


def test_a_missing_file(tmp_path):
    with pytest.raises(BundleError, match="is a folder, expected a bundle .slewrl export"):
        read(tmp_path)
    with pytest.raises(BundleError, match="there is no file .*slewrl export"):
        read(tmp_path / "none.bundle")


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, 1.7e308, -2.5, 0.0])
def test_decimals_are_exact(value):
    from fractions import Fraction

    assert Fraction(bundle.decimal(value)) == Fraction(value)
