"""`describe_depth` names real modules, and the tensor seen there is the one the definition means."""

from __future__ import annotations

import pytest
import torch

from depthscope.models import BlockAttnRes
from tests.models.every import every_design


def all_ports(axis):
    ports = [axis.embedding, axis.final_read]
    for sublayer in axis.sublayers:
        ports += [sublayer.read, sublayer.write, sublayer.state, sublayer.made]
    ports += [mixer.weights for mixer in axis.mixers]
    for block in axis.outer:
        ports += [block.carry, block.read, block.write, block.boundary, block.state]
    return [port for port in ports if port is not None]


@pytest.fixture
def watch():
    """Run a model once and return what passed each port of its axis; ports may be shared, none passes twice."""

    def watch(model, tokens):
        seen = {}
        for port in dict.fromkeys(all_ports(model.describe_depth())):

            def see(module, inputs, output=None, port=port):
                value = inputs[0] if port.side == "input" else output
                for part in port.path:
                    value = value[part]
                assert port not in seen, f"{port} passed twice"
                seen[port] = value.detach()

            module = model.get_submodule(port.module)
            if port.side == "input":
                handle = module.register_forward_pre_hook(see)
            else:
                handle = module.register_forward_hook(see)
            handles.append(handle)
        model(tokens)
        while handles:
            handles.pop().remove()
        return seen

    handles = []
    return watch


def by_hand(model, tokens):
    """Reads, writes and protocol states of one forward, from the protocol's four calls."""
    residual = model.residual
    with torch.no_grad():
        v0 = model.embedding(tokens)
        state = residual.begin(v0)
        reads, writes, states = [], [], []
        for index, layer in enumerate(model.layers):
            reads.append(residual.read(state, index))
            writes.append(layer.sublayer(layer.norm(reads[-1])))
            state = residual.write(state, index, writes[-1])
            states.append(state)
        return v0, reads, writes, states, residual.end(state)


@every_design
def test_reads_writes_and_ends_are_seen_where_described(build, tokens, watch, design):
    model = build(design, jitter=0.3)
    axis, seen = model.describe_depth(), watch(model, tokens)
    v0, reads, writes, _, final = by_hand(model, tokens)
    assert torch.equal(seen[axis.embedding], v0)
    assert torch.equal(seen[axis.final_read], final)
    for layer, sublayer in enumerate(axis.sublayers):
        assert torch.equal(seen[sublayer.read], reads[layer])
        if sublayer.made is not None:
            assert torch.equal(seen[sublayer.made], reads[layer])
        if sublayer.write.module == f"layers.{layer}.sublayer":
            assert torch.equal(seen[sublayer.write], writes[layer])
        else:  # what the design makes of it; its size against the state's is recorded and tested there
            assert sublayer.write.module.startswith("residual.")


@pytest.mark.parametrize(
    "design",
    ["prenorm", "lns", "peri-ln", "rezero", "layerscale", "hires:n=2,B=2", "hires:n=2,B=2,outer=no,norm=no,gate=none",
     "hires:n=1,B=2,outer=no,identity=yes"],
)  # fmt: skip
def test_an_additive_state_is_read_plus_write(build, tokens, watch, design):
    model = build(design, jitter=0.3)
    axis, seen = model.describe_depth(), watch(model, tokens)
    for sublayer in axis.sublayers:
        assert sublayer.additive
        assert torch.equal(seen[sublayer.state], seen[sublayer.read] + seen[sublayer.write])


def test_the_last_state_of_prenorm_is_the_sum_of_all_writes(build, tokens, watch):
    model = build("prenorm")
    axis, seen = model.describe_depth(), watch(model, tokens)
    total = seen[axis.embedding] + sum(seen[sublayer.write] for sublayer in axis.sublayers)
    assert torch.allclose(seen[axis.sublayers[-1].state], total, rtol=1e-5, atol=1e-6)
    assert seen[axis.sublayers[-1].state] is not None
    assert torch.equal(seen[axis.sublayers[-1].state], seen[axis.final_read])


@pytest.mark.parametrize(("size", "blocks"), [(3, [1, 1, 1, 2, 2, 2, 3, 3]), (4, [1, 1, 1, 1, 2, 2, 2, 2])])
def test_block_attnres_state_is_the_write_at_block_starts_and_only_there(
    build, config, tokens, watch, size, blocks
):
    """Identity 10: state_rms = write_rms at the first sublayer of every residual block, and nowhere else."""
    model = build(BlockAttnRes(config, block_size=size), jitter=0.3)
    axis, seen = model.describe_depth(), watch(model, tokens)
    assert [sublayer.residual_block for sublayer in axis.sublayers] == blocks
    total = None
    for position, sublayer in enumerate(axis.sublayers):
        first = position % size == 0
        write, state = seen[sublayer.write], seen[sublayer.state]
        assert torch.equal(state, write) is first
        assert (state.square().mean() == write.square().mean()).item() is first
        total = write if first else total + write
        assert torch.equal(state, total)
        assert not sublayer.additive
        assert sublayer.fresh == "mixer"


def test_every_state_of_full_attnres_is_its_write(build, tokens, watch):
    model = build("full-attnres", jitter=0.3)
    axis, seen = model.describe_depth(), watch(model, tokens)
    for sublayer in axis.sublayers:
        assert torch.equal(seen[sublayer.state], seen[sublayer.write])
        assert sublayer.residual_block == 0


def test_prenorm_state_is_nowhere_the_write(build, tokens, watch):
    model = build("prenorm")
    axis, seen = model.describe_depth(), watch(model, tokens)
    assert not any(torch.equal(seen[s.state], seen[s.write]) for s in axis.sublayers)
    assert {s.residual_block for s in axis.sublayers} == {0}
    assert {s.fresh for s in axis.sublayers} == {"state"}


def test_sources_of_full_attnres_are_the_embedding_and_the_sublayers(build):
    axis = build("full-attnres").describe_depth()
    assert axis.source_names == ("embedding", *(f"sublayer {i}" for i in range(1, 9)))
    assert [mixer.target for mixer in axis.mixers] == list(range(1, 10))
    assert [mixer.sources for mixer in axis.mixers] == [tuple(range(n)) for n in range(1, 10)]
    assert not any(mixer.partial for mixer in axis.mixers)


def test_sources_of_block_attnres_are_blocks_with_the_unfinished_one_last(build):
    """Eight sublayers in blocks of three: 3, 3, 2."""
    axis = build("block-attnres:S=3").describe_depth()
    assert axis.source_names == ("embedding", "block 1", "block 2", "block 3")
    assert [mixer.sources for mixer in axis.mixers] == [
        (0,), (0, 1), (0, 1),
        (0, 1), (0, 1, 2), (0, 1, 2),
        (0, 1, 2), (0, 1, 2, 3),
        (0, 1, 2, 3),
    ]  # fmt: skip
    assert [mixer.partial for mixer in axis.mixers] == [
        False, True, True, False, True, True, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("design", ["full-attnres", "block-attnres:S=3", "two-phase-attnres:S=3"])
def test_a_mixer_takes_the_sources_it_names_and_its_weights_mix_them(build, tokens, watch, design):
    model = build(design, jitter=0.3)
    axis = model.describe_depth()
    parameters = dict(model.named_parameters())
    inputs = {}
    for mixer in axis.mixers:
        model.get_submodule(mixer.module).register_forward_hook(
            lambda module, args, read, target=mixer.target: inputs.update({target: (args[0], read)})
        )
    seen = watch(model, tokens)
    v0, _, writes, _, final = by_hand(model, tokens)
    size = 1 if design == "full-attnres" else 3
    sums = [v0] + [sum(writes[a : a + size]) for a in range(0, 8, size)]
    for mixer in axis.mixers:
        sources, read = inputs[mixer.target]
        alpha = seen[mixer.weights]
        assert alpha.shape == (len(mixer.sources), 2, 13)
        assert torch.allclose(alpha.sum(0), torch.ones(2, 13))
        assert torch.allclose(torch.einsum("nbt,nbtd->btd", alpha, torch.stack(sources)), read, atol=1e-5)
        finished = len(mixer.sources) - mixer.partial
        for column, source in zip(mixer.sources[:finished], sources[:finished], strict=True):
            assert torch.allclose(source, sums[column], atol=1e-6)
        if mixer.partial:
            start = (mixer.target - 1) // size * size
            assert torch.allclose(sources[-1], sum(writes[start : mixer.target - 1]), atol=1e-6)
        assert parameters[mixer.query].shape == parameters[mixer.key_norm].shape == (24,)
    assert torch.equal(inputs[9][1], final)


@pytest.mark.parametrize("design", ["hires:n=2,B=2", "hires:n=2,B=2,outer=no,norm=no,gate=none"])
def test_outer_blocks_are_seen_before_and_after_their_norm(build, tokens, watch, design):
    model = build(design, jitter=0.3)
    axis, seen = model.describe_depth(), watch(model, tokens)
    assert [block.index for block in axis.outer] == [1, 2]
    assert [s.residual_block for s in axis.sublayers] == [1] * 4 + [2] * 4
    assert [s.fresh for s in axis.sublayers] == (["state"] * 3 + [None]) * 2
    plain = "outer=no" in design
    carried = model.residual.E(model.embedding(tokens))
    for block, first, last in zip(axis.outer, (0, 4), (3, 7), strict=True):
        assert torch.equal(seen[block.carry], carried)
        assert torch.equal(seen[block.read], seen[axis.sublayers[first].read])
        written = model.residual.W[block.index - 1](seen[axis.sublayers[last].state])
        assert torch.equal(seen[block.write], written)
        assert torch.equal(seen[block.boundary], written if plain else carried + written)
        energy = seen[block.state].square().mean(-1)
        if not plain:
            gain = model.residual.norms[block.index - 1].weight
            unit = (seen[block.state] / gain).square().mean(-1)
            assert torch.allclose(unit, torch.ones_like(energy), rtol=1e-3)
        assert (block.read_gate is None) == (block.write_gate is None) == plain
        carried = seen[block.state]


def test_an_increment_hides_the_state_at_a_block_end(build):
    axis = build("hires:n=1.5,B=2,phi=increment").describe_depth()
    assert [s.state is None for s in axis.sublayers] == [False, False, False, True] * 2


@every_design
def test_every_parameter_named_exists_and_sublayers_are_numbered_from_one(build, design):
    model = build(design)
    axis = model.describe_depth()
    modules, parameters = dict(model.named_modules()), dict(model.named_parameters())
    named = [*axis.embedding_parameters, *axis.head_parameters, *axis.final_norm_parameters]
    for sublayer in axis.sublayers:
        named += sublayer.parameters
    for mixer in axis.mixers:
        named += [name for name in (*mixer.parameters, mixer.query, mixer.key_norm) if name]
    for block in axis.outer:
        named += [*block.read_parameters, *block.write_parameters]
        named += [gate for gate in (block.read_gate, block.write_gate) if gate]
    assert [name for name in named if name not in modules and name not in parameters] == []
    assert [s.index for s in axis.sublayers] == list(range(1, 9))
    assert [s.transformer_block for s in axis.sublayers] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [s.kind for s in axis.sublayers] == ["attention", "mlp"] * 4
    assert [s.name for s in axis.sublayers[:2]] == ["1 attention", "2 MLP"]


def test_module_paths_are_the_ones_that_others_rely_on(build):
    names = set(dict(build("block-attnres:S=3").named_modules()))
    expected = {"embedding", "begin", "end", "norm", "head", "residual", "residual.mix.8.weights"}
    expected |= {f"layers.7.{part}" for part in ("read", "norm", "sublayer", "write")}
    assert expected <= names
    hires = set(dict(build("hires:n=2,B=4").named_modules()))
    assert {"residual.E", "residual.H", "residual.R.3", "residual.W.3", "residual.norms.3"} <= hires
