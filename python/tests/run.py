"""Runs the tests of this folder, or those named: run.py [MODULE ...]. The last line counts as doctest's does."""

from __future__ import annotations

import pathlib
import sys
import time
import unittest


class Result(unittest.TextTestResult):
    """Tells how long each case took where tools/run_tests.py asks."""

    def startTest(self, test: unittest.TestCase) -> None:
        self._began = time.perf_counter()
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        print(f"{time.perf_counter() - self._began:.6f} s: {test.id()}", flush=True)


class Runner(unittest.TextTestRunner):
    def _makeResult(self) -> Result:
        return Result(self.stream, self.descriptions, self.verbosity)


def main() -> int:
    folder = pathlib.Path(__file__).parent
    sys.path.insert(0, str(folder))
    loader = unittest.TestLoader()
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names) if names else loader.discover(str(folder), "test_*.py")
    result = Runner(verbosity=1).run(suite)
    # A case with several failed parts is one.
    bad = len({getattr(test, "test_case", test).id() for test, _ in [*result.failures, *result.errors]}) + len(result.unexpectedSuccesses)
    print(f"test cases: {result.testsRun} | {result.testsRun - bad} passed | {bad} failed | {len(result.skipped)} skipped")
    return 1 if bad or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
