"""GPT-2 as a user meets it: the small language of test_language, read in windows."""

import json
import unittest

from program import SEED, read_checkpoint, settings
from test_language import LEARNT, WORDS, LanguageTest


class Gpt2(LanguageTest):
    STEPS = settings(train__steps=12, train__eval_every_steps=6, train__checkpoints__every_steps=4)

    def setUp(self):
        super().setUp()
        self.gpt2 = self.folder / "gpt2.toml"
        self.gpt2.write_text('base = "rule.toml"\n[model]\nname = "gpt2"\nlayers = 2\nd_model = 24\nd_embed = 24\n'
                             'heads = 2\nd_inner = 48\npositions = 16\ndropout = 0.0\nattention_dropout = 0.0\n'
                             'init_std = 0.1\n')

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
        self.assertIn("heads = 5", self.refused("train", self.gpt2, *settings(model__heads=5), "--out", "other",
                                               status=1))


if __name__ == "__main__":
    unittest.main()
