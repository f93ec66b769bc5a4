"""docs/python.md's tables "Row by row": the middle column of every row runs, and everything in the reference's documents has a row."""
import copy
import re

import pytest

import gradus as gd
from doc_pages import PAGES, ROOT
from gradus import m

PAGE = ROOT / "docs" / "python.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTION = TEXT[TEXT.index("## Row by row"):]
ROWS = [row for row in re.findall(r"^\| (.+?) \| (`.+?`) \| ?(.*?) ?\|$", SECTION, re.M)]

# classes, methods and arguments of the documents, in their order
REFERENCE = """
Chainable; Chain(modules).step.update.apply.__repr__; maybe_chain(modules)
Modular(params modules).model.modules.unrolled_modules.param_groups.defaults.current_step.num_evaluations.attrs.should_terminate
Modular.add_param_group(param_group).state_dict.load_state_dict(state_dict).step(closure loss kwargs).__repr__
Module(defaults).defaults.settings.state.global_state.children.set_param_groups(param_groups).set_child(key module).__repr__
Module.set_children_sequence(modules prefix).get_children_sequence(prefix).get_settings(params key key2 keys cls)
Module.get_state(params key key2 keys must_exist init cls).clear_state_keys(keys).store(params keys values).state_dict.step(var).update(var)
Module.apply(var).get_H(var).reset.reset_for_online.Hvp(v at_x0 var rgrad hvp_method h normalize retain_grad).get_generator(device seed)
TensorwiseTransform(defaults uses_grad uses_loss concat_params update_freq inner target)
TensorwiseTransform.update_tensor(tensor param grad loss state setting).apply_tensor(tensor param grad loss state setting)
Transform(defaults uses_grad uses_loss concat_params update_freq inner target)
Transform.update_tensors(tensors params grads loss states settings).apply_tensors(tensors params grads loss states settings)
Transform.keyed_transform_update(tensors params grads loss).keyed_transform_apply(tensors params grads loss).pre_step(var).post_step(var)
Transform.transform_update(tensors params grads loss states settings).transform_apply(tensors params grads loss states settings)
Var(params closure model current_step parent modular loss storage).params.closure.model.current_step.parent.modular.update.grad.loss
Var.loss_approx.post_step_hooks.is_last.nested_is_last.last_module_lrs.stop.skip_update.attrs.storage.should_terminate
Var.get_loss(backward retain_graph create_graph).get_grad(retain_graph create_graph).get_update.clone(clone_update parent)
Var.update_attrs_from_clone_(var).zero_grad(set_to_none)
ModuleType; TENSOR_PARAM_PREFIX; TENSOR_BUFFER_PREFIX
Module.__nograd_tensors__.__call__.device.export(name).export_all.freeze.unfreeze.__setattr__(name value).__delattr__(name)
Module.to_device(device).cpu.gpu(index); Functional.register(obj_type).get_applicable_types(cls).allows(obj).invoke(obj kwargs)
nograd_tensors(names); VirtualTensor(owner name materializer dtype device persist).LinkedAttributes.attributes.device.dtype.name.owner
VirtualTensor.create(owner name materializer dtype device persist).to(args kwargs).value
"""


def names_of_the_reference():
    for entry in re.split(r"[;\n]", REFERENCE):
        owner = entry.split(".")[0].split("(")[0].strip()
        for i, (name, arguments) in enumerate(re.findall(r"([\w]+)(?:\(([^)]*)\))?", entry.strip())):
            if name:
                yield (name if i == 0 else f"{owner}.{name}"), arguments.split()


@pytest.fixture
def names():
    """What the block of the section makes."""
    first = next(i for i, block in enumerate(PAGES[PAGE]) if "class whole:" in block.text)
    found = {}
    exec(compile(PAGES[PAGE][first].text, str(PAGE), "exec"), found)
    return found


def last_value(code, found):
    """Runs statements; the value of the last, if it is an expression."""
    import ast

    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, code, "exec"), found)
    return eval(compile(ast.Expression(last.value), code, "eval"), found) if last else None


def runs(code, names):
    """At the top, or inside a link of the kind that it speaks of."""
    found, seen = dict(names), []
    if re.search(r"\bt\.|\(t\b", code):
        @gd.link(state=["average", "square", "copy", "number", "made"], uses_grad=True, uses_loss=True)
        class of_lists:
            target = "update"
            seed = None

            def apply(self, t):
                if "for s in t.states]" in code and "setdefault" not in code:
                    for s in t.states:
                        s.setdefault("average")
                seen.append(last_value(code, {**found, "t": t}))
        chain = of_lists()
    elif re.search(r"(?<!lambda )\bvar\b(?!:)", code):
        @gd.link
        class of_a_step:
            modules = ()

            def step(self, var):
                for child in var.children():
                    child.update(var)
                seen.append(last_value(code, {**found, "var": var}))
        chain = of_a_step(names["whole"](inner=None))
    else:
        return last_value(code, found)
    names["run"](chain, m.lr(0.1))
    return seen[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"[^\w.]+", "_", row[0])[:70])
def test_the_counterpart_runs(row, names):
    code = row[1].strip("`").replace("\\|", "|")
    assert runs(code, names) is not False, code


def test_everything_in_the_documents_has_a_row():
    there = " ".join(row[0] for row in ROWS)
    assert len(ROWS) > 100
    for name, arguments in names_of_the_reference():
        assert re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", there), name
        rows = " ".join(row[0] for row in ROWS if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", row[0]))
        for argument in arguments:
            assert re.search(rf"(?<!\w){argument}(?!\w)", rows), f"{name}({argument})"


def test_a_row_can_fail(names):
    assert runs("optimizer.steps == 7", names) is False
    with pytest.raises(AttributeError):
        runs("t.no_such_thing", names)
    assert copy.deepcopy(names["net"]).weight.tolist() == names["net"].weight.tolist()


TORCHZERO = (ROOT / "docs" / "howto" / "from_torchzero.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("here", re.findall(r"^\| `[A-Z].*\| `(.+?)` \|$", TORCHZERO.split("## Renamed")[1].split("## ")[0], re.M))
def test_a_renamed_class_of_torchzero_is_a_chain(here):
    chain = here.replace("\\|", "|")
    if chain.startswith("gradus.torch."):
        source = (ROOT / "python" / "gradus" / "torch.py").read_text(encoding="utf-8")
        assert re.search(rf"\b{chain.split('.')[2].split('(')[0]}\b", source)
    else:
        assert str(gd.Chain(chain))


def test_every_link_with_another_result_than_torchzeros_has_its_reason():
    rows = TORCHZERO.split("## Deliberate differences")[1]
    named = set()
    for line in (ROOT / "tests" / "golden" / "EXPECTED_DIFFERENCES").read_text(encoding="utf-8").splitlines():
        first = re.match(r"\d+ +\d+ +(\w+)", line)
        if first and first[1] in gd.link_names():
            named.add(first[1])
    assert len(named) > 20 and not {name for name in named if f"`{name}`" not in rows}
