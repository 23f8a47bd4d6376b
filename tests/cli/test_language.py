"""Language modelling as a user meets it: a small language whose words mostly follow a rule."""

import json
import math
import random
import shutil
import unittest

from program import SEED, ProgramTest, read_checkpoint, settings

WORDS = [f"w{i:02}" for i in range(30)]
FAITHFUL = 0.9  # how often a word is followed by the one that the rule says
LEARNT = 7.5  # a perplexity that needs the rule: without it there are 30 words to choose from, with it 1.9


def successor(word: str) -> str:
    """The rule, which leads through all words."""
    return WORDS[(WORDS.index(word) + 7) % len(WORDS)]


def text(draw: random.Random, lines: int) -> str:
    word, result = WORDS[0], []
    for _ in range(lines):
        line = []
        for _ in range(9):
            word = successor(word) if draw.random() < FAITHFUL else draw.choice(WORDS)
            line.append(word)
        result.append(" " + " ".join(line) + " \n")
    return "".join(result)


class LanguageTest(ProgramTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(SEED)
        (self.folder / "text").mkdir()
        for split, lines in (("train", 800), ("valid", 60), ("test", 40)):
            (self.folder / f"text/{split}.txt").write_text(text(draw, lines))
        self.config = self.folder / "rule.toml"
        self.config.write_text("""experiment = "language"
[data]
path = "text"
segment = 8
memory = 8
eval_segment = 8
eval_memory = 8
eval_streams = 4
[model]
name = "deq-transformer"
d_model = 24
d_embed = 24
heads = 2
d_head = 12
d_inner = 48
dropout = 0.0
attention_dropout = 0.0
init_std = 0.2
weight_norm = false
[solver.forward]
name = "anderson"
max_evals = 12
[solver.adjoint]
name = "anderson"
max_evals = 12
[jacobian]
gamma = 0.02
probability = 0.3
[train]
epochs = 1
batch_size = 8
lr = 5e-3
log_every = 5
""")

    def train_rule(self, out, *more, config=None):
        return json.loads(self.deq("train", config or self.config, *more, "--out", out, "--json").stdout)

    def looped(self):
        """The same text for a model whose middle layer is looped."""
        path = self.folder / "looped.toml"
        path.write_text('base = "rule.toml"\n[model]\nname = "looped"\nprelude = 1\ncore = 1\ncoda = 1\n'
                        'd_model = 24\nd_embed = 24\nheads = 2\nd_head = 12\nd_inner = 48\ndropout = 0.0\n'
                        'init_std = 0.2\n'
                        '[gradient]\nname = "unrolled"\nsteps = 4\nspread = 0.5\nbackpropagated = 2\n')
        return path

    def qrnn(self):
        """The same text for a recurrent network."""
        path = self.folder / "qrnn.toml"
        path.write_text('base = "rule.toml"\n[model]\nname = "awd-qrnn"\nlayers = 2\nd_embed = 24\n'
                        'd_hidden = 32\ninput_dropout = 0.0\nhidden_dropout = 0.0\noutput_dropout = 0.0\n')
        return path


    def relational(self):
        """The same text for a recurrent network."""
        path = self.folder / "relational.toml"
        path.write_text('base = "rule.toml"\n[model]\nname = "relational-memory"\nd_model = 24\nd_embed = 24\n'
                        'slots = 2\nheads = 2\nhead_size = 12\nmlp_layers = 2\nembedding_dropout = 0.0\n'
                        'init_std = 0.2\n')
        return path


class Learning(LanguageTest):
    def test_an_equilibrium_learns_the_rule_and_is_evaluated_in_every_way(self):
        result = self.train_rule("run", *settings(train__epochs=8))
        self.assertLess(result["perplexity"], LEARNT, f"seed {SEED}")
        self.assertAlmostEqual(result["perplexity"], math.exp(result["loss"]))
        for name in ("residual", "residual_p90", "nfe_forward", "rho", "jacobian_norm", "path_distance"):
            self.assertIn(name, result)
        evaluated = json.loads(self.deq("eval", "run", "--json").stdout)
        self.assertEqual(evaluated["perplexity"], result["perplexity"])
        self.assertGreater(evaluated["words_per_s"], 0)
        test = json.loads(self.deq("eval", "run", "--set", "data.eval_split=test", "--json").stdout)
        self.assertEqual((evaluated["split"], test["split"]), ("valid", "test"))
        self.assertNotEqual(test["perplexity"], result["perplexity"])
        self.assertLess(test["perplexity"], LEARNT, f"seed {SEED}")
        other = json.loads(self.deq("eval", "run", *settings(data__eval_segment=5, data__eval_memory=20),
                                    "--json").stdout)
        self.assertLess(other["perplexity"], LEARNT, f"seed {SEED}")
        rows = [json.loads(line) for line in
                self.deq("eval", "run", "--budgets", "2,4,12", "--json").stdout.splitlines()]
        residuals = [row["residual"] for row in rows]
        self.assertEqual(residuals, sorted(residuals, reverse=True))
        self.assertEqual(rows[-1]["perplexity"], result["perplexity"])
        for row in rows:
            self.assertEqual(row["split"], "valid")
            for name in ("residual", "rho", "jacobian_norm", "words_per_s"):
                self.assertGreater(row[name], 0, name)
            self.assertGreater(row.get("peak_memory_mib", 1), 0)  # where the system lets it be measured
        self.continues_a_text_without_its_data()

    def continues_a_text_without_its_data(self):
        shutil.rmtree(self.folder / "text")
        wide = self.deq("generate", "run", "--prompt", "w03\u3000sense\u00a0less w17", "--words", "1")
        for word in ("sense", "less"):
            self.assertIn(f'does not know "{word}"', wide.stderr)
        first = self.deq("generate", "run", "--prompt", "w03 nonsense w17", "--words", "40")
        self.assertTrue(first.stdout.startswith("w03 nonsense w17"), first.stdout)
        self.assertIn('does not know "nonsense"', first.stderr)
        self.assertIn("evaluations per word from the last equilibrium on", first.stderr)
        words = first.stdout.split()[3:]
        self.assertTrue(set(words) <= set(WORDS), words)
        again = self.deq("generate", "run", "--prompt", "w03 nonsense w17", "--words", "40")
        self.assertEqual(again.stdout, first.stdout)
        other = self.deq("generate", "run", "--prompt", "w03 nonsense w17", "--words", "40", "--seed", "5")
        self.assertNotEqual(other.stdout, first.stdout)
        greedy = json.loads(self.deq("generate", "run", "--prompt", "w03", "--words", "30", "--top",
                                     "1", "--json").stdout)
        followed = greedy["text"].split()
        # Each pair once: the likeliest word may be itself, and is then repeated without end.
        pairs = set(zip(followed, followed[1:]))
        kept = sum(b == successor(a) for a, b in pairs)
        self.assertGreater(kept, len(pairs) / 2, f"seed {SEED}: {greedy['text']}")
        self.assertLessEqual(greedy["evaluations_per_word"], 12)

    def test_transformer_xl_trains_on_the_same_text(self):
        path = self.folder / "xl.toml"
        path.write_text('base = "rule.toml"\n[model]\nname = "transformer-xl"\nlayers = 2\nd_model = 24\n'
                        'd_embed = 24\nheads = 2\nd_head = 12\nd_inner = 48\ndropout = 0.0\n')
        result = json.loads(self.deq("train", path, *settings(train__epochs=3), "--out", "xl",
                                     "--json").stdout)
        self.assertLess(result["perplexity"], LEARNT, f"seed {SEED}")
        self.assertNotIn("nfe_forward", result)
        generated = json.loads(self.deq("generate", "xl", "--prompt", "w00", "--words", "5",
                                        "--json").stdout)
        self.assertNotIn("evaluations_per_word", generated)

    def test_a_recurrent_network_trains_on_the_same_text(self):
        penalties = settings(model__activation_penalty=0.01, model__slowness_penalty=0.01)
        result = self.train_rule("qrnn", *settings(train__epochs=3), *penalties, config=self.qrnn())
        self.assertLess(result["perplexity"], LEARNT, f"seed {SEED}")
        self.assertAlmostEqual(result["perplexity"], math.exp(result["loss"]))
        self.assertNotIn("nfe_forward", result)
        forgetful = json.loads(self.deq("eval", "qrnn", *settings(data__eval_memory=0, data__eval_segment=1),
                                        "--json").stdout)
        kept = json.loads(self.deq("eval", "qrnn", *settings(data__eval_memory=1, data__eval_segment=1),
                                   "--json").stdout)
        self.assertAlmostEqual(kept["loss"], result["loss"], places=4)
        self.assertNotAlmostEqual(forgetful["loss"], result["loss"], places=4)
        generated = json.loads(self.deq("generate", "qrnn", "--prompt", "w00", "--words", "30", "--top", "1",
                                        "--json").stdout)
        followed = generated["text"].split()
        pairs = set(zip(followed, followed[1:]))
        self.assertGreater(sum(b == successor(a) for a, b in pairs), len(pairs) / 2, f"seed {SEED}: {followed}")
        self.assertNotIn("evaluations_per_word", generated)

    def test_what_no_recurrent_network_can_have_is_refused(self):
        for wrong in (settings(model__window=0), settings(model__weight_dropout=1), settings(model__layers=0),
                      settings(model__slowness_penalty=-1), settings(model__heads=2)):
            with self.subTest(wrong):
                self.refused("train", self.qrnn(), *wrong, "--out", "run")
    def test_a_relational_memory_trains_on_the_same_text(self):
        result = self.train_rule("run", *settings(train__epochs=4), config=self.relational())
        self.assertLess(result["perplexity"], LEARNT, f"seed {SEED}")
        self.assertNotIn("nfe_forward", result)
        self.assertEqual(json.loads(self.deq("eval", "run", "--json").stdout)["perplexity"], result["perplexity"])
        texts = [json.loads(self.deq("generate", "run", "--prompt", "w00", "--words", "30", "--top", "1", "--json",
                                     *settings(data__eval_segment=segment)).stdout)["text"].split()
                 for segment in (8, 1)]
        self.assertEqual(texts[0], texts[1], "a prompt may be read in pieces of any size")
        pairs = set(zip(texts[0], texts[0][1:]))
        self.assertGreater(sum(b == successor(a) for a, b in pairs), len(pairs) / 2, f"seed {SEED}: {texts[0]}")

    def test_what_no_relational_memory_can_have_is_refused(self):
        for wrong, named in ((settings(model__slots=0), "slots"), (settings(model__gates="some"), "gates"),
                             (settings(model__embedding_dropout=1), "embedding_dropout"),
                             (settings(model__d_inner=4), "d_inner")):
            with self.subTest(wrong):
                self.assertIn(named, self.refused("train", self.relational(), *wrong, "--out", "run"))


class Loops(LanguageTest):
    def test_a_loop_learns_the_rule_and_is_evaluated_at_every_depth(self):
        result = self.train_rule("run", *settings(train__epochs=4), config=self.looped())
        self.assertLess(result["perplexity"], LEARNT, f"seed {SEED}")
        steps = [row["nfe_forward"] for row in self.metrics("run") if row["split"] == "train"]
        self.assertGreater(len(set(steps)), 3, "training draws the number of its loops")
        rows = [json.loads(line) for line in
                self.deq("eval", "run", *settings(model__exits="[0.1]"), "--budgets", "1,2,4,8,64",
                         "--json").stdout.splitlines()]
        self.assertEqual([row["budget"] for row in rows], [1, 2, 4, 8, 64])
        self.assertEqual(len({row["perplexity"] for row in rows}), 5)
        self.assertEqual(rows[2]["perplexity"], result["perplexity"], "its own depth is that of training in the mean")
        for row in rows:
            self.assertGreaterEqual(row["exit_loops@0.1"], 1)
            self.assertLessEqual(row["exit_loops@0.1"], row["budget"])
        self.assertLess(rows[-1]["exit_loops@0.1"], 64, "words have left the loop")
        solved = json.loads(self.deq("eval", "run", *settings(gradient__name="implicit"), "--json").stdout)
        self.assertLess(solved["perplexity"], 2 * LEARNT, f"seed {SEED}")
        generated = json.loads(self.deq("generate", "run", "--prompt", "w00", "--words", "5", "--json").stdout)
        self.assertEqual(len(generated["text"].split()), 6)

    def test_what_no_loop_can_have_is_refused(self):
        looped = self.looped()
        for wrong in (settings(gradient__spread=-1), settings(gradient__spread=5), settings(model__core=0),
                      settings(model__exits="[0.0]"), settings(gradient__backpropagated=9)):
            with self.subTest(wrong):
                self.refused("train", looped, *wrong, "--out", "run")
        implicit = settings(gradient__name="implicit", gradient__spread=0.5)
        self.assertIn("spread", self.refused("train", looped, *implicit, "--out", "run"))


class Memory(LanguageTest):
    STEPS = settings(train__steps=12, train__eval_every_steps=6, train__checkpoints__every_steps=4)
    LEARNED_STARTS = settings(model__predicted_start="true", train__start_penalty=0.2, train__step_penalty=0.1,
                              train__step_evals=2)

    def test_the_same_bits_after_an_interruption(self):
        dropout = settings(model__dropout=0.2, model__attention_dropout=0.1)
        every_dropout = settings(model__embedding_dropout=0.1, model__input_dropout=0.2, model__hidden_dropout=0.2,
                                 model__output_dropout=0.2, model__weight_dropout=0.1,
                                 model__activation_penalty=1, model__slowness_penalty=1)
        for name, config, more in (("plain", self.config, []),
                                   ("parts", self.config, settings(train__accumulation=2)),
                                   ("dropout", self.config, dropout),
                                   ("starts", self.config, dropout + self.LEARNED_STARTS),
                                   ("loops", self.looped(), dropout),
                                   ("recurrent", self.qrnn(), every_dropout),
                                   ("relational", self.relational(),
                                    settings(model__embedding_dropout=0.2, model__output_dropout=0.1))):
            with self.subTest(name):
                self.train_rule(f"{name}-whole", *self.STEPS, *more, config=config)
                self.train_rule(f"{name}-cut", *self.STEPS, *more, config=config)
                checkpoints = self.checkpoints(f"{name}-cut")
                tensors = read_checkpoint(checkpoints[0])[0]
                self.assertTrue(any(key.startswith("carried/") for key in tensors), list(tensors))
                for path in checkpoints[1:]:  # as if it had been killed after the first of them
                    path.unlink()
                self.deq("train", "--resume", f"{name}-cut")
                self.assertEqual(self.weights(f"{name}-cut"), self.weights(f"{name}-whole"))
                self.assertEqual(self.metrics(f"{name}-cut"), self.metrics(f"{name}-whole"))

    def test_two_processes_see_what_one_sees(self):
        precise = settings(precision="float64")
        # The noise that a loop starts from is each process's own, as dropout is.
        for name, config, more in (("solved", self.config, []),
                                   ("starts", self.config, self.LEARNED_STARTS),
                                   ("looped", self.looped(), settings(model__start_std=0)),
                                   ("recurrent", self.qrnn(), settings(model__activation_penalty=1)),
                                   ("relational", self.relational(), [])):
            with self.subTest(name):
                runs = f"{name}-one", f"{name}-two"
                self.train_rule(runs[0], *self.STEPS, *precise, *more, config=config)
                self.deq("train", config, *self.STEPS, *precise, *more, "--nproc", "2", "--out", runs[1])
                one, two = (self.metrics(run)[-1] for run in runs)
                self.assertAlmostEqual(one["loss"], two["loss"], delta=1e-9)
                shapes = [{tensor: parts[1] for tensor, parts in self.weights(run).items()} for run in runs]
                self.assertEqual(*shapes)


class Misuse(LanguageTest):
    def test_texts_that_cannot_be_used(self):
        self.assertIn("text2", self.refused("train", self.config, "--set", "data.path=text2", "--out",
                                            "run", status=2))
        for text in (b"good words\nbad \xff\xfe\n", b""):
            (self.folder / "text/train.txt").write_bytes(text)
            message = self.deq("train", self.config, "--out", "run", status=1).stderr
            self.assert_one_sentence(message)
            self.assertIn("train.txt", message)
            self.assertFalse((self.folder / "run").exists())

    def test_texts_that_cannot_be_evaluated_are_refused_before_there_is_a_run(self):
        (self.folder / "short").mkdir()
        for split, words in (("train", "w00 w01\n" * 400), ("valid", "w00\n")):
            (self.folder / f"short/{split}.txt").write_text(words)
        (self.folder / "text/test.txt").unlink()
        for setting, said in (
                ("data.eval_split=test", "the corpus text has no test split: there is neither test.txt nor"),
                ("data.eval_streams=5000", "data.eval_streams = 5000, must be at most half of the 600 words of the valid text"),
                ("data.eval_words=2", "data.eval_streams = 4, must be at most half of the 2 words of the valid text "
                                      "(data.eval_words = 2)"),
                ("data.path=short", "data.eval_streams = 4, must be at most half of the 2 words of the valid text"),
                ("train.batch_size=5000", "train.batch_size = 5000, must be at most half of the 8000 words of the train text")):
            message = self.deq("train", self.config, "--set", setting, "--out", "run", status=2).stderr
            self.assert_one_sentence(message)
            self.assertIn(said, message)
            self.assertFalse((self.folder / "run").exists())

    def test_ranks_that_refuse_alike_say_so_once(self):
        message = self.deq("train", self.config, "--set", "model.cutoffs=[20, 10]", "--nproc", 2, "--out", "run",
                           status=2).stderr
        said = [line for line in message.splitlines() if "warning" not in line]  # of too many processes
        self.assertEqual(len(said), 1, message)
        self.assertIn("cutoffs", said[0])
        message = self.deq("train", self.config, "--set", "data.path=text2", "--nproc", 2, "--out", "run", status=2).stderr
        self.assertEqual(message.count("text2 does not exist"), 1, message)
        self.assertNotIn("rank", message)

    def test_what_only_an_equilibrium_has(self):
        network = self.folder / "xl.toml"
        network.write_text('base = "rule.toml"\n[model]\nname = "transformer-xl"\nlayers = 2\nd_model = 24\n'
                           'd_embed = 24\nheads = 2\nd_head = 12\nd_inner = 48\ndropout = 0.0\n')
        for setting in ("train.start_noise=0.5", "jacobian.control.hold=rho"):
            message = self.refused("train", network, "--set", setting, "--out", "run")
            self.assertIn(setting.split("=")[0], message)
            self.assertIn("has no equilibrium", message)
        result = self.deq("train", network, *settings(train__steps=2, train__pretrain__steps=9), "--out", "run", "--json")
        self.assertNotIn("pretraining", result.stdout + result.stderr)

    def test_a_damaged_cache_is_made_anew_with_a_warning(self):
        self.train_rule("run", *settings(train__steps=2))
        for command in (["train", self.config, *settings(train__steps=2), "--out", "again", "--json"], ["eval", "run"]):
            cache = self.folder / "text/.deq-cache/words/train.safetensors"
            whole = cache.read_bytes()
            cache.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            self.assertIn("the cache is made anew, as it is damaged: text/.deq-cache", self.deq(*command).stderr)
            self.assertEqual(cache.read_bytes(), whole)

    def test_a_text_that_has_moved(self):
        steps = ("--set", "train.steps=6", "--set", "train.checkpoints.every_steps=3")
        self.train_rule("straight", *steps)
        self.train_rule("run", *steps)
        self.checkpoints("run")[-1].unlink()
        (self.folder / "text").rename(self.folder / "moved")
        self.assertIn("text does not exist", self.deq("train", "--resume", "run", status=2).stderr)
        self.assertNotIn("moved", (self.folder / "run/config.toml").read_text())
        self.deq("train", "--resume", "run", "--set", "data.path=moved", "--json")
        self.assertEqual(self.weights("run"), self.weights("straight"))
        self.assertIn('path = "moved"', (self.folder / "run/config.toml").read_text())
        self.evaluate("run")

    def test_a_run_whose_text_has_changed(self):
        self.train_rule("run", *settings(train__steps=2))
        with open(self.folder / "text/train.txt", "a") as file:
            file.write("another word\n")
        for command in (["eval", "run"], ["train", "--resume", "run"]):
            message = self.deq(*command, status=1).stderr
            self.assert_one_sentence(message)
            self.assertIn("is of a model for other data", message)

    def test_generate_refuses_what_it_cannot_use(self):
        self.train_rule("run", *settings(train__steps=2))
        self.refused("generate", "nowhere", status=2)
        for temperature in ("0", "inf", "nan"):
            self.assertIn("temperature is", self.refused("generate", "run", "--temperature", temperature, status=2))
        for seed in ("-1", "18446744073709551616"):
            message = self.deq("generate", "run", "--seed", seed, status=2).stderr
            self.assertIn(f"--seed: must be a whole number, zero or above, not {seed}", message)
        self.deq("generate", "run", "--words", "0", status=2)


if __name__ == "__main__":
    unittest.main()
