"""GPT-2 as a user meets it: the small language of test_language, read in windows."""

import array
import json
import shutil
import unittest

from program import SEED, ProgramTest, read_checkpoint, settings
from test_language import LEARNT, WORDS, LanguageTest


class Gpt2Test(LanguageTest):
    STEPS = settings(train__steps=12, train__eval_every_steps=6, train__checkpoints__every_steps=4)

    def setUp(self):
        super().setUp()
        self.gpt2 = self.folder / "gpt2.toml"
        self.gpt2.write_text('base = "rule.toml"\n[model]\nname = "gpt2"\nlayers = 2\nd_model = 24\nd_embed = 24\n'
                             'heads = 2\nd_inner = 48\npositions = 16\ndropout = 0.0\nattention_dropout = 0.0\n'
                             'init_std = 0.1\n')


class Gpt2(Gpt2Test):
    def test_learns_the_rule_with_and_without_a_memory(self):
        for memory in (0, 8):
            result = self.train_rule(f"run-{memory}", *settings(train__epochs=3, data__memory=memory, data__eval_memory=memory),
                                     config=self.gpt2)
            self.assertLess(result["perplexity"], LEARNT, f"seed {SEED}")
            self.assertNotIn("nfe_forward", result)
        generated = json.loads(self.deq("generate", "run-8", "--prompt", "w00", "--words", "20", "--json").stdout)
        words = generated["text"].split()  # without the ends of lines, which are drawn too
        self.assertGreater(len(words), 10)
        self.assertLessEqual(set(words), set(WORDS))
        self.assertNotIn("evaluations_per_word", generated)

    def test_the_same_bits_after_an_interruption(self):
        dropout = settings(model__dropout=0.2, model__attention_dropout=0.1)
        for name, more in (("whole", []), ("dropout", dropout), ("parts", settings(train__accumulation=2))):
            with self.subTest(name):
                self.train_rule(f"{name}-whole", *self.STEPS, *more, config=self.gpt2)
                self.train_rule(f"{name}-cut", *self.STEPS, *more, config=self.gpt2)
                checkpoints = self.checkpoints(f"{name}-cut")
                kind, shape = read_checkpoint(checkpoints[0])[0]["carried/memory.0"][:2]
                self.assertEqual((kind, list(shape)), ("I64", [8, 8]), "words are remembered as words")
                for path in checkpoints[1:]:  # as if it had been killed after the first of them
                    path.unlink()
                self.deq("train", "--resume", f"{name}-cut")
                self.assertEqual(self.weights(f"{name}-cut"), self.weights(f"{name}-whole"))
                self.assertEqual(self.metrics(f"{name}-cut"), self.metrics(f"{name}-whole"))

    def test_two_processes_see_what_one_sees(self):
        precise = settings(precision="float64")
        self.train_rule("one", *self.STEPS, *precise, config=self.gpt2)
        self.deq("train", self.gpt2, *self.STEPS, *precise, "--nproc", "2", "--out", "two")
        one, two = (self.metrics(run)[-1] for run in ("one", "two"))
        self.assertAlmostEqual(one["loss"], two["loss"], delta=1e-9)

    def test_what_it_cannot_read_at_once_is_refused(self):
        message = self.refused("train", self.gpt2, *settings(data__memory=9), "--out", "run", status=2)
        for part in ("data.segment = 8", "data.memory = 9", "17 words", "model.positions = 16"):
            self.assertIn(part, message)
        self.train_rule("run", *settings(train__steps=2), config=self.gpt2)
        message = self.refused("eval", "run", *settings(data__eval_memory=20), status=2)
        self.assertIn("data.eval_memory = 20", message)
        self.assertIn("heads = 5", self.refused("train", self.gpt2, *settings(model__heads=5), "--out", "other"))


class InParts(Gpt2Test):
    # Gradients are clipped in every step, and validation and checkpoints have a running mean of the weights.
    RECIPE = settings(precision="float64", train__steps=12, train__eval_every_steps=6, train__checkpoints__every_steps=4,
                      train__log_every=2, train__clip_norm=0.05, train__weight_average=0.9, model__heads=4, train__checkpoints__keep=5)

    def in_parts(self, out, processes, parts, *more):
        self.deq("train", self.gpt2, *self.RECIPE, *more, "--nproc", processes, "--tensor-parallel", parts, "--out", out)

    def assert_same_training(self, run, reference):
        """To rounding, which twelve steps of Adam amplify."""
        lines, expected = self.metrics(run), self.metrics(reference)
        self.assertEqual(len(lines), len(expected))
        for line, other in zip(lines, expected):
            for name in {"loss", "perplexity", "grad_norm"} & other.keys():
                self.assertAlmostEqual(line[name], other[name], delta=1e-8 * abs(other[name]), msg=name)
        self.assertEqual([path.name for path in self.checkpoints(run)], [path.name for path in self.checkpoints(reference)])
        tensors, others = (read_checkpoint(self.checkpoints(one)[-1])[0] for one in (run, reference))
        self.assertEqual({name: form[:2] for name, form in tensors.items()}, {name: form[:2] for name, form in others.items()})
        for name, (kind, _, data) in others.items():
            if kind != "F64":
                self.assertEqual(tensors[name][2], data, name)
                continue
            found, wanted = array.array("d", tensors[name][2]), array.array("d", data)
            for a, b in zip(found, wanted):
                self.assertAlmostEqual(a, b, delta=1e-8, msg=name)

    def test_all_that_one_process_trains(self):
        self.train_rule("one", *self.RECIPE, config=self.gpt2)
        self.assertGreater(self.metrics("one")[0]["grad_norm"], 0.05, "gradients are clipped")
        for processes, parts in ((2, 2), (4, 4), (4, 2)):
            with self.subTest(processes=processes, parts=parts):
                self.in_parts(f"run-{processes}-{parts}", processes, parts)
                self.assert_same_training(f"run-{processes}-{parts}", "one")
        evaluated = json.loads(self.deq("eval", "run-4-2", "--json").stdout)
        self.assertAlmostEqual(evaluated["perplexity"], self.metrics("one")[-1]["perplexity"], delta=1e-6)

    def test_a_run_goes_on_with_any_number_of_parts(self):
        self.train_rule("one", *self.RECIPE, config=self.gpt2)
        self.in_parts("four", 4, 4)
        for start, processes, parts in (("four", 1, 1), ("one", 2, 2), ("four", 4, 2)):
            with self.subTest(start=start, processes=processes, parts=parts):
                run = f"{start}-{processes}-{parts}"
                shutil.copytree(self.folder / start, self.folder / run)
                for path in self.checkpoints(run)[1:]:  # as if it had been killed after the first of them
                    path.unlink()
                self.deq("train", "--resume", run, "--nproc", processes, "--tensor-parallel", parts)
                self.assert_same_training(run, "one")

    def test_the_same_bits_after_an_interruption(self):
        dropout = settings(model__dropout=0.2, model__attention_dropout=0.1)
        for run in ("whole", "cut"):
            self.in_parts(run, 2, 2, *dropout)
        for path in self.checkpoints("cut")[1:]:
            path.unlink()
        self.deq("train", "--resume", "cut", "--nproc", 2, "--tensor-parallel", 2)
        self.assertEqual(self.weights("cut"), self.weights("whole"))

    def test_what_cannot_be_held_in_parts_is_refused(self):
        for config, processes, parts, said in ((self.gpt2, 4, 3, "must divide the number of processes, 4"),
                                               (self.gpt2, 1, 2, "must divide the number of processes, 1"),
                                               (self.config, 2, 2, "only the network gpt2")):
            message = self.refused("train", config, *self.STEPS, "--nproc", processes, "--tensor-parallel", parts, "--out", "run")
            self.assertIn(said, message)
        message = self.refused("train", self.gpt2, *self.STEPS, *settings(model__heads=3), "--nproc", 2, "--tensor-parallel", 2,
                               "--out", "run")
        self.assertIn("heads = 3, must be a multiple of the 2 processes", message)


class Plan(ProgramTest):
    def test_the_memory_of_every_published_size(self):
        for preset, billions in (("355m", 0.355), ("2.5b", 2.5), ("8.3b", 8.3)):
            # 24, 20 and 24 heads: four processes can share each.
            text = self.deq("bench", "gpt2", "--plan", "--preset", preset, "--tensor-parallel", "4", "--gpus", "4,32",
                            "--json", "plan.json").stdout
            plan = json.loads((self.folder / "plan.json").read_text())
            self.assertAlmostEqual(plan["parameters"] / (billions * 1e9), 1, delta=0.005)
            gpu = plan["per_gpu"]
            # What is not shared is embedding, softmax, positions and a few vectors.
            self.assertGreater(4 * gpu["parameters"], plan["parameters"])
            self.assertLess(4 * gpu["parameters"] - plan["parameters"], 3 * 52.5e3 * {"355m": 1030, "2.5b": 1930, "8.3b": 3090}[preset])
            states = gpu["weights_bytes"] + gpu["gradients_bytes"] + gpu["optimiser_bytes"]
            self.assertEqual(states, 16 * gpu["parameters"])
            totals = [gpu[way]["total_bytes"] for way in ("everything", "no_scores", "inputs_only")]
            self.assertEqual(totals, sorted(totals, reverse=True))
            for way in ("everything", "no_scores", "inputs_only"):
                row = gpu[way]
                self.assertEqual(row["total_bytes"], states + gpu["outside_bytes"] + row["activations_bytes"])
                self.assertEqual((row["fits_80_gb"], row["fits_141_gb"]),
                                 (row["total_bytes"] <= 80e9, row["total_bytes"] <= 141e9))
                self.assertIn(f"in all {row['total_bytes'] / 1e9:.2f} GB", text)
            self.assertEqual([(row["gpus"], row["copies"]) for row in plan["gpus"]], [(4, 1), (32, 8)])

    def test_one_gpu_cannot_have_the_largest(self):
        self.deq("bench", "gpt2", "--plan", "--tensor-parallel", "1", "--gpus", "1", "--json", "plan.json")
        gpu = json.loads((self.folder / "plan.json").read_text())["per_gpu"]
        self.assertEqual([gpu["inputs_only"]["fits_80_gb"], gpu["inputs_only"]["fits_141_gb"]], [False, True])

    def test_what_cannot_be_planned_is_refused(self):
        for arguments, said in ((["--gpus", "12"], "--tensor-parallel = 8"), (["--words", "1025"], "positions = 1024"),
                                (["--tensor-parallel", "7", "--gpus", "7"], "heads = 24"),
                                (["--micro-batch", str(2**63 - 1)], "more than can be counted")):
            message = self.deq("bench", "gpt2", "--plan", *arguments, status=2).stderr
            self.assert_one_sentence(message)
            self.assertIn(said, message)
        self.assertIn("nothing between two commas",
                      self.deq("bench", "gpt2", "--plan", "--gpus", "8,,64", status=2).stderr)
        self.assertIn("--plan", self.deq("bench", "gpt2", status=2).stderr)
        self.assertIn("1.5b", self.deq("bench", "gpt2", "--plan", "--preset", "1.5b", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
