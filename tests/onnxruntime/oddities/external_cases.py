"""external_cases.py: tensors in files beside the model, in the layouts of exporters and caches, and ways out of its folder."""
import copy
import os

import onnx
from onnx import TensorProto

from parts import Case, case, chain, info, model, node, tensor, values


def external(m, spot, files):
    """A writer: the model with tensors outside. `spot(tensor, offset)` gives the entries, `files` what lies around."""
    def write(folder):
        out, data = copy.deepcopy(m), b""
        for t in out.graph.initializer:
            entries, t_bytes = spot(t.name, len(data)), t.raw_data
            t.ClearField("raw_data")
            t.data_location = TensorProto.EXTERNAL
            for key, value in entries.items():
                entry = t.external_data.add()
                entry.key, entry.value = key, str(value)
            if entries.get("length") == "size":
                t.external_data[-1].value = str(len(t_bytes))
            data += t_bytes
            data += b"\0" * (-len(data) % 4)
        for where, content in files(data, m).items():
            path = os.path.join(folder, where)
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            if callable(content):
                content(path)
            else:
                with open(path, "wb") as f:
                    f.write(content)
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(out.SerializeToString())
        return path
    return write


def outside(spot=None, files=None, warns=""):
    c = Case()
    c.warns = warns
    c.good = chain()
    spot = spot or (lambda name, at: {"location": "w.data", "offset": at, "length": "size"})
    files = files or (lambda data, m: {"w.data": data})
    c.odd = external(c.good, spot, files)
    return c


def place(location, **more):
    return lambda name, at: {"location": location, "offset": at, **more}


@case
def external_one_file():
    c = outside()
    c.twins["too short"] = external(c.good, place("w.data"), lambda data, m: {"w.data": data[:-8]})
    c.twins["other length"] = external(c.good, place("w.data", length=4), lambda data, m: {"w.data": data})
    c.twins["no file"] = external(c.good, place("w.data"), lambda data, m: {})
    return c


@case
def external_a_file_each():
    def each(data, m):
        return {f"{t.name}.bin": t.raw_data for t in m.graph.initializer}
    c = outside(lambda name, at: {"location": f"{name}.bin"}, each)
    c.twins["swapped"] = external(c.good, lambda name, at: {"location": f"{dict(w='b', b='w').get(name, name)}.bin"}, each)
    return c


@case
def external_in_a_folder():
    c = outside(place("weights/w.data"), lambda data, m: {"weights/w.data": data})
    c.twins["up and down"] = external(c.good, place("../{up}/weights/w.data"), lambda data, m: {"weights/w.data": data})
    return c


@case
def external_with_a_dot():
    c = outside(place("./w.data"))
    c.twins["of another system"] = external(c.good, place("weights\\w.data"), lambda data, m: {"weights/w.data": data})
    c.twins["up"] = external(c.good, place("../w.data"), lambda data, m: {"../w.data": data})
    return c


@case
def external_without_length():
    c = outside(place("w.data"))
    c.twins["empty"] = external(c.good, place("w.data", length=""), lambda data, m: {"w.data": data})
    c.twins["no number"] = external(c.good, place("w.data", length="x"), lambda data, m: {"w.data": data})
    return c


@case
def external_with_a_checksum():
    return outside(place("w.data", checksum="00" * 20))


@case
def external_with_keys_of_other_tools():
    """Python's onnx keeps the folder in the message, ONNX Runtime where it has laid packed weights."""
    return outside(place("w.data", basepath="/nowhere", prepacked_0="w|0;48"), warns="external-key")


@case
def external_keys_twice():
    def twice(*locations):
        def write(folder):
            path = external(chain(), place("w.data"), lambda data, m: {"w.data": data})(folder)
            m = onnx.load(path, load_external_data=False)
            for location in locations:
                m.graph.initializer[0].external_data.add(key="location", value=location)
            with open(path, "wb") as f:
                f.write(m.SerializeToString())
            return path
        return write
    c = Case()
    c.warns = "external-key"
    c.good = chain()
    c.odd = twice("w.data")
    c.twins["two files"] = twice("v.data")
    c.twins["and back"] = twice("v.data", "w.data")
    return c


@case
def external_aligned():
    def spot(name, at):
        return {"location": "w.data", "offset": {"w": 0, "b": 4096, "s": 8192}[name]}
    def files(data, m):
        return {"w.data": b"".join(t.raw_data.ljust(4096, b"\0") for t in m.graph.initializer) + b"more"}
    c = outside(spot, files)
    c.twins["behind the end"] = external(c.good, lambda name, at: {"location": "w.data", "offset": 1 << 40}, files)
    c.twins["negative"] = external(c.good, lambda name, at: {"location": "w.data", "offset": -4}, files)
    return c


@case
def external_shared_by_two():
    c = Case()
    nodes = [node("Mul", ["x", "a"], ["t"]), node("Add", ["t", "b"], ["y"])]
    c.good = model(nodes, [info("x", [2, 3])], [info("y", [2, 3])], [tensor("a", values(3)), tensor("b", values(3))])
    c.odd = external(c.good, lambda name, at: {"location": "w.data", "offset": 0, "length": 12}, lambda data, m: {"w.data": data})
    c.twins["absolute"] = external(c.good, place("/tmp/w.data"), lambda data, m: {"w.data": data})
    return c


@case
def external_name_with_a_space():
    return outside(place("my weights.data"), lambda data, m: {"my weights.data": data})


def cached(m, model_link, data_link):
    """As Hugging Face's cache lies: snapshots/<revision>/onnx/model.onnx and its data are links into blobs/."""
    def write(folder):
        blobs, snapshot = os.path.join(folder, "blobs"), os.path.join(folder, "snapshots", "abc", "onnx")
        os.makedirs(snapshot)
        os.makedirs(blobs)
        path = external(m, place("model.onnx_data"), lambda data, _: {"model.onnx_data": data})(blobs)
        os.rename(path, os.path.join(blobs, "1f2e"))
        os.rename(os.path.join(blobs, "model.onnx_data"), os.path.join(blobs, "3d4c"))
        outer = os.path.join(folder, "secret")
        with open(outer, "wb") as f:
            f.write(b"\0" * 4096)
        os.symlink(model_link, os.path.join(snapshot, "model.onnx"))
        os.symlink(data_link.replace("{secret}", outer), os.path.join(snapshot, "model.onnx_data"))
        return os.path.join(snapshot, "model.onnx")
    return write


@case
def external_in_the_cache_of_hugging_face():
    c = Case()
    c.good = chain()
    c.odd = cached(c.good, "../../../blobs/1f2e", "../../../blobs/3d4c")
    c.twins["leaves it"] = cached(c.good, "../../../blobs/1f2e", "../../../secret")
    c.twins["absolute and leaves it"] = cached(c.good, "../../../blobs/1f2e", "{secret}")
    return c


@case
def external_link_beside_the_model():
    def files(data, m):
        return {"data/real": data, "w.data": lambda path: os.symlink("data/real", path)}
    c = outside(place("w.data"), files)
    c.twins["leaves it"] = external(c.good, place("w.data"),
                                    lambda data, m: {"../real": data, "w.data": lambda path: os.symlink("../real", path)})
    return c
