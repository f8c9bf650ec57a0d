"""The process around it: signals, forks, the end of the interpreter, memory, torch where it is installed."""

from __future__ import annotations

import pickle
import threading
import time
import unittest

import numpy as np
from common import example, floats, run_script, session_of

import weft

# A run of many steps, of some seconds.
SLOW = """
import os, signal, threading, time
import numpy as np
import weft

def slow(steps=20000):
    g = weft.Graph()
    body = weft.Graph()
    i, c, x = body.input("i", "i64", []), body.input("c", "bool", []), body.input("x", "f32", [300, 300])
    body.outputs = [weft.ops.Identity(c), x @ x]
    n = g.constant(np.array(steps, np.int64))
    v = g.input("v", "f32", [300, 300])
    g.outputs = [weft.ops.Loop(n, None, v, body=body)]
    return weft.Session(weft.compile(g))
"""


class ProcessTest(unittest.TestCase):
    def check(self, text: str) -> None:
        done = run_script(SLOW + text)
        self.assertEqual((done.returncode, done.stdout.split()[-1:]), (0, ["fine"]), done.stdout + done.stderr)

    def test_ctrl_c_ends_a_run(self) -> None:
        self.check("""
s, v = slow(), np.zeros((300, 300), np.float32)
sent = []
def kill():
    time.sleep(0.5)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=kill).start()
try:
    s.run(v)
except KeyboardInterrupt:
    late = time.perf_counter() - sent[0]
else:
    raise SystemExit("not interrupted")
assert late < 1, late  # 0.2 s on a quiet machine
g = weft.Graph()
g.outputs = [g.input("a", "f32", [2]) + 1.0]
weft.Session(weft.compile(g)).run(np.zeros(2, np.float32))
threading.Thread(target=kill).start()
try:
    s.run(v)  # the session is good: it runs, and is interrupted again
except KeyboardInterrupt:
    print("fine")
""")

    def test_a_handler_of_the_user(self) -> None:
        self.check("""
class Mine(Exception):
    pass
def handler(number, frame):
    raise Mine
signal.signal(signal.SIGINT, handler)
s = slow()
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    s.run(np.zeros((300, 300), np.float32))
except Mine:
    print("fine")
assert signal.getsignal(signal.SIGINT) is handler
""")

    def test_cancel_from_another_thread(self) -> None:
        self.check("""
s, v = slow(), np.zeros((300, 300), np.float32)
s.cancel()  # nothing runs
threading.Timer(0.3, s.cancel).start()
for _ in range(2):
    began = time.perf_counter()
    try:
        s.run(v)
    except weft.CancelledError as error:
        assert error.code == "WEFT-E0504", error.code
    else:
        raise SystemExit("not cancelled")
    threading.Timer(0.3, s.cancel).start()
print("fine")
time.sleep(0.5)
""")

    def test_the_interpreter_ends_while_threads_run(self) -> None:
        self.check("""
s = [slow() for _ in range(2)]
def work(session):
    while True:
        try:
            session.run(np.zeros((300, 300), np.float32))
        except weft.Error:
            pass
for session in s:
    threading.Thread(target=work, args=(session,), daemon=True).start()
time.sleep(0.4)
print("fine")
""")

    def test_the_interpreter_ends_among_short_calls(self) -> None:
        """Threads that come back again and again while it ends."""
        for _ in range(3):
            self.check("""
g = weft.Graph()
a = g.input("a", "f32", [4])
g.outputs = [a + 1.0]
p = weft.compile(g)
def work(session):
    while True:
        try:
            session.run(np.zeros(4, np.float32))
        except weft.Error:
            pass
for _ in range(4):
    threading.Thread(target=work, args=(weft.Session(p),), daemon=True).start()
time.sleep(0.05)
print("fine")
""")

    def test_after_a_fork(self) -> None:
        self.check("""
g = weft.Graph()
a = g.input("a", "f32", [4])
g.outputs = [a + 1.0]
s = weft.Session(weft.compile(g))
s.run(np.zeros(4, np.float32))
if (child := os.fork()) == 0:
    code = 1
    try:
        assert weft.apply_passes(g, "Simplify").num_nodes > 0
        try:
            s.run(np.zeros(4, np.float32))
        except weft.ApiMisuseError as error:
            code = 0 if "spawn" in error.hint else 2
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
s.run(np.zeros(4, np.float32))
print("fine")
""")

    def test_a_fork_before_anything_ran(self) -> None:
        self.check("""
g = weft.Graph()
a = g.input("a", "f32", [4])
g.outputs = [a + 1.0]
if (child := os.fork()) == 0:
    [y] = weft.Session(weft.compile(g)).run(np.zeros(4, np.float32))
    os._exit(0 if y.tolist() == [1, 1, 1, 1] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("fine")
""")

    def test_nothing_else_is_imported(self) -> None:
        done = run_script("""
            import sys
            import numpy
            import weft
            print([m for m in ("torch", "onnx", "ml_dtypes", "google.protobuf", "difflib") if m in sys.modules])
            """)
        self.assertEqual(done.stdout.strip(), "[]", done.stderr)

    def test_memory_stays(self) -> None:
        program = weft.compile(example())
        a, b = floats(8), floats(8)

        def resident() -> int:
            with open("/proc/self/statm", encoding="ascii") as f:
                return int(f.read().split()[1]) * 4096

        def rounds(n: int) -> None:
            for _ in range(n):
                weft.Session(program).run(a, b)

        rounds(2000)
        before = resident()
        rounds(6000)
        self.assertLess(resident() - before, 1 << 20)

    def test_errors_pickle(self) -> None:
        for error in (weft.BindingError("m", "WEFT-E0105", "p", "h", "t"), weft.FileError("m", "c"), weft.PluginError("m")):
            twin = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(twin), str(twin), twin.code, twin.hint), (type(error), str(error), error.code, error.hint))
        for name in weft.errors.__all__:
            self.assertTrue(issubclass(getattr(weft, name), weft.Error))

    def test_the_lock_is_free_during_runs(self) -> None:
        g = weft.Graph()
        x = g.input("x", "f32", [1500, 1500])
        g.outputs = [(x @ x) @ x]
        s, value = session_of(g), np.zeros((1500, 1500), np.float32)
        s.run(value)
        ticks, stop = [0], threading.Event()

        def count() -> None:
            while not stop.is_set():
                ticks[0] += 1
                time.sleep(0.0001)

        thread = threading.Thread(target=count)
        thread.start()
        before = ticks[0]
        s.run(value)
        during = ticks[0] - before
        stop.set()
        thread.join()
        self.assertGreater(during, 1)

    def test_plugins(self) -> None:
        with self.assertRaises(weft.FileError):
            weft.load_plugin("/nowhere/plugin.so")
        with self.assertRaises(weft.PluginError):
            weft.load_plugin("/proc/self/exe", trial=True)
        self.assertEqual(weft.loaded_plugins(), [])


class TorchTest(unittest.TestCase):
    def setUp(self) -> None:
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("no torch")

    def test_tensors(self) -> None:
        import torch

        s = session_of(example())
        a, b, y = torch.randn(8), torch.randn(8), torch.empty(8)
        np.testing.assert_array_equal(s.run(a, b)[0], ((a + b) * a).numpy())
        [got] = s.run(a, b, out=y)
        self.assertIs(got, y)
        torch.testing.assert_close(y, (a + b) * a)
        [got] = s.run(a, b, results="torch")
        torch.testing.assert_close(got, (a + b) * a)
        torch.testing.assert_close(torch.from_numpy(s.run(a[:8], torch.randn(16)[::2])[0]).shape, torch.Size([8]))
        parameter = torch.nn.Parameter(torch.ones(8))
        np.testing.assert_array_equal(s.run(parameter, parameter)[0], np.full(8, 2, np.float32))
        with self.assertRaises(weft.BadInputError):
            s.run(a, b, out=torch.empty(16)[::2])
        with self.assertRaises(weft.Error):
            s.run(a, torch.empty(8, device="meta"))
        with self.assertRaises(weft.Error):
            s.run(a, b.to_sparse())
        # Views that torch makes of others by flags are refused, not misread.
        with self.assertRaises(weft.BadInputError):
            s.run(a, torch.complex(a, b).conj().imag)
        Sub = type("Sub", (torch.Tensor,), {})
        np.testing.assert_array_equal(s.run(a.as_subclass(Sub), b)[0], ((a + b) * a).numpy())
        for wrong in (torch.complex(a, b), a.double(), a[:7], torch.empty(8, device="meta"), b.to_sparse()):
            with self.assertRaises(weft.Error) as caught:
                s.run(a, wrong)
            self.assertTrue(caught.exception.code)
        # A parameter that is replaced, resized or freed between calls is what it is then.
        parameter.data = torch.full((8,), 3.0)
        np.testing.assert_array_equal(s.run(parameter, parameter)[0], np.full(8, 18, np.float32))
        parameter.data = torch.zeros(3)
        with self.assertRaises(weft.BadInputError):
            s.run(parameter, parameter)
        pending = s.start(torch.ones(8), torch.ones(8))
        np.testing.assert_array_equal(pending.wait()[0], np.full(8, 2, np.float32))
        g = weft.Graph()
        g.outputs = [weft.ops.Identity(g.input("x", torch.bfloat16, ["n"]))]
        [half] = session_of(g).run(torch.ones(3, dtype=torch.bfloat16), results="torch")
        self.assertEqual(half.dtype, torch.bfloat16)


if __name__ == "__main__":
    unittest.main()
