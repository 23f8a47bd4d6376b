"""Weights that another program saved become a checkpoint: matched by name, never overwritten."""

import json
import struct
import unittest

from program import ProgramTest, read_checkpoint


def write_safetensors(path, tensors):
    """`tensors` by name: type, shape and bytes."""
    header, content = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(content), len(content) + len(data)]}
        content += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


def doubles_of(entry):
    """A float32 tensor as float64."""
    dtype, shape, data = entry
    assert dtype == "F32"
    count = len(data) // 4
    return "F64", shape, struct.pack(f"<{count}d", *struct.unpack(f"<{count}f", data))


class Convert(ProgramTest):
    def setUp(self):
        super().setUp()
        self.trained = self.train()
        self.model = {name: entry for name, entry in self.weights("run").items()
                      if not name.startswith("optimiser/")}

    def state_dict(self, tensors, name="in.safetensors"):
        write_safetensors(self.folder / name, tensors)
        return name

    def convert(self, *arguments, out="out.safetensors", like="run"):
        result = self.deq("convert", *arguments, "--like", like, "--out", out, "--json")
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def converted(self, out="out.safetensors"):
        return read_checkpoint(self.folder / out)[0]

    def test_a_state_dict_of_another_type_and_behind_a_prefix(self):
        given = {f"module.{name}": doubles_of(entry) for name, entry in self.model.items()}
        result = self.convert(self.state_dict(given))
        self.assertEqual(result, {"out": "out.safetensors", "matched": len(self.model),
                                  "prefix": "module.", "missing": [], "superfluous": []})
        self.assertEqual(self.converted(), self.model)
        metadata = read_checkpoint(self.folder / "out.safetensors")[1]
        self.assertEqual(metadata["config"], (self.folder / "run/config.toml").read_text())

    def test_what_was_converted_is_evaluated(self):
        given = self.state_dict(self.model)
        for like in ("run", "run/config.toml"):
            with self.subTest(like=like):
                out = like.replace("/", "-") + "-converted"
                self.convert(given, like=like, out=out)
                evaluated, _ = self.evaluate(out)
                self.assertEqual(evaluated["mse"], self.trained["mse"])
        checkpoint = self.checkpoints("run")[-1]
        for old in self.checkpoints("run"):
            old.unlink()
        self.convert(given, out=checkpoint)
        self.assertEqual(self.evaluate("run")[0], evaluated)

    def test_differences_are_listed(self):
        dropped = sorted(self.model)[0]
        given = {name: entry for name, entry in self.model.items() if name != dropped}
        given.update({f"layer{i}.bias": ("F32", [1], bytes(4)) for i in range(3)})
        file = self.state_dict(given)
        result = self.convert(file)
        self.assertEqual(result["missing"], [dropped])
        self.assertEqual(result["superfluous"], ["layer0.bias", "layer1.bias", "layer2.bias"])
        told = self.deq("convert", file, "--like", "run", "--out", "again.safetensors")
        self.assertEqual(told.stderr.splitlines(),
                         [f"deq: missing, left as the model starts: {dropped}",
                          "deq: superfluous, left out: 3 × layer*.bias"])
        self.assertIn("again.safetensors", told.stdout)
        self.assertEqual(self.converted(), self.converted("again.safetensors"))

    def test_a_prefix_that_not_all_names_have(self):
        given = {f"net.{name}": entry for name, entry in self.model.items()}
        file = self.state_dict({**given, "epoch": ("I64", [], bytes(8))})
        self.assertIn("nothing of this model",
                      self.refused("convert", file, "--like", "run", "--out", "o.safetensors",
                                   status=1))
        self.assertEqual(self.convert(file, "--prefix", "net.")["superfluous"], ["epoch"])

    def test_another_shape_is_refused(self):
        name, (dtype, shape, data) = sorted(self.model.items())[0]
        file = self.state_dict({**self.model, name: (dtype, [*shape, 2], data * 2)})
        message = self.refused("convert", file, "--like", "run", "--out", "o.safetensors", status=1)
        self.assertIn(f'"{name}" has shape', message)

    def test_nothing_is_overwritten(self):
        file = self.state_dict(self.model)
        for out in (file, "run", "run/config.toml"):
            self.refused("convert", file, "--like", "run", "--out", out)

    def test_what_is_not_there(self):
        file = self.state_dict(self.model)
        (self.folder / "empty").mkdir()
        (self.folder / "text").write_text("no tensors")
        for arguments, part, status in (
                ((file, "--like", "nowhere"), "nowhere", 2),
                ((file, "--like", "empty"), "config.toml", 2),
                (("nothing.safetensors", "--like", "run"), "nothing.safetensors", 2),
                (("text", "--like", "run"), "text", 1)):
            self.assertIn(part, self.refused("convert", *arguments, "--out", "o.safetensors",
                                             status=status))
        self.refused("convert", file, "--like", "run", "--out", "no/folder/o.safetensors", status=1)

    def test_the_command_line(self):
        self.assertIn("Usage: deq convert", self.deq("convert", "--help").stdout)
        for arguments in ([], ["in.safetensors"], ["in.safetensors", "--like", "run"]):
            self.assertIn("--help", self.deq("convert", *arguments, status=2).stderr)


if __name__ == "__main__":
    unittest.main()
