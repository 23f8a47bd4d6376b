"""The check of the examples' output can fail."""

import unittest

from check_output import differences, expected_output

SOURCE = """// What it does.
//
// Expected output (numbers to 10%):
//
//   a = 0.5: z* =   1.00, fine
//     gamma 1: 99.8% after 12 evaluations to 1e-3

#include <nothing>
"""


class Check(unittest.TestCase):
    def setUp(self):
        self.tolerance, self.expected = expected_output(SOURCE)

    def wrong(self, *lines):
        return len(differences(self.expected, list(lines), self.tolerance))

    def test_reads_the_comment(self):
        self.assertEqual(self.tolerance, 0.1)
        self.assertEqual(self.expected, ["a = 0.5: z* =   1.00, fine",
                                         "  gamma 1: 99.8% after 12 evaluations to 1e-3"])

    def test_numbers_within_the_tolerance_pass(self):
        self.assertEqual(self.wrong("a = 0.5: z* = 1.09, fine",
                                    "  gamma 1: 98.1% after 13 evaluations to 1e-3"), 0)

    def test_what_differs_fails(self):
        second = self.expected[1]
        self.assertEqual(self.wrong("a = 0.5: z* = 1.12, fine", second), 1)
        self.assertEqual(self.wrong("a = 0.5: z* = -1.00, fine", second), 1)
        self.assertEqual(self.wrong("a = 0.5: z* = 1.00, bad", second), 1)
        self.assertEqual(self.wrong("a = 0.5: z* = nan, fine", second), 1)
        self.assertEqual(self.wrong(self.expected[0], second.replace("12", "14")), 1)
        self.assertEqual(self.wrong(self.expected[0]), 1)

    def test_a_comment_without_output_is_refused(self):
        for source in ("", "// Expected output (numbers to 10%):\n//\n\nint main() {}\n"):
            with self.assertRaises(SystemExit):
                expected_output(source)


if __name__ == "__main__":
    unittest.main()
