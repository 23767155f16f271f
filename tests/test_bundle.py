"""Bundles: what is written is read back to the bit, and what is not as written is refused."""

import contextlib
import hashlib
import io
import json
import pickle
import random
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from deployed import bundled

from slewrl import RateLimits
from slewrl.deploy import bundle
from slewrl.deploy.bundle import HEADER, MAGIC, BundleError, read

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
    path = tmp_path / "x.bundle"
    path.write_bytes(sealed({"manifest.json": json.dumps(manifest), "policy.onnx": bomb}))
    from slewrl.deploy.controller import Controller

    with pytest.raises(BundleError, match="ONNX Runtime cannot load"):
        Controller(path)


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


def test_weights_in_another_file_are_refused(made, tmp_path):
    """ONNX Runtime would read them from wherever it is started."""
    import onnx

    parts = parts_of(made)
    model = onnx.load_from_string(parts["policy.onnx"])
    tensor = model.graph.initializer[0]
    entry = tensor.external_data.add()
    entry.key, entry.value, tensor.data_location = "location", "w.bin", onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    parts["policy.onnx"] = model.SerializeToString()
    manifest = json.loads(parts["manifest.json"])
    manifest["parts"] = {"policy.onnx": hashlib.sha256(parts["policy.onnx"]).hexdigest()}
    refused(tmp_path, sealed({**parts, "manifest.json": json.dumps(manifest)}), "keeps weights in another file")


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
