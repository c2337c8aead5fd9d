"""Muon's step is the nearest orthogonal matrix, roughly, whatever the size of the gradient."""

from __future__ import annotations

import pytest
import torch

from depthscope.training import Muon, orthogonalise


@pytest.mark.parametrize("shape", [(16, 16), (12, 40), (40, 12)])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_orthogonalising_keeps_the_singular_vectors_and_levels_the_values(shape, size):
    generator = torch.Generator().manual_seed(0)
    matrix = size * torch.randn(shape, generator=generator)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    assert values.max() / values.min() > 1.5
    inside = left.T @ orthogonalise(matrix) @ right.T
    assert inside.shape == (min(shape), min(shape))
    diagonal = inside.diagonal()
    assert (inside - diagonal.diag()).abs().max() < 1e-3
    assert diagonal.min() > 0.6
    assert diagonal.max() < 1.25


def test_more_singular_directions_than_rank_are_left_at_zero():
    column = torch.randn(8, 1, generator=torch.Generator().manual_seed(0))
    result = orthogonalise(column @ column.T)
    assert torch.linalg.matrix_rank(result, rtol=1e-3) == 1


@pytest.mark.parametrize("shape", [(16, 16), (12, 40), (40, 12)])
def test_a_step_moves_entries_about_as_far_as_adamw(shape):
    """0.2 of the learning rate on the wide side's scale, for any gradient."""
    parameter = torch.nn.Parameter(torch.zeros(shape))
    parameter.grad = 1e-6 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    Muon([parameter], lr=0.1, weight_decay=0).step()
    assert parameter.square().mean().sqrt().item() == pytest.approx(0.2 * 0.1, rel=0.2)


def test_the_first_step_goes_along_the_orthogonalised_gradient():
    gradient = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    parameter = torch.nn.Parameter(torch.ones(6, 9))
    parameter.grad = gradient.clone()
    Muon([parameter], lr=0.1, weight_decay=0.5).step()
    expected = 1 * (1 - 0.05) - 0.1 * 0.2 * 3 * orthogonalise(gradient)
    assert torch.allclose(parameter, expected, atol=1e-5)
    assert torch.equal(parameter.grad, gradient)


def test_momentum_carries_earlier_gradients():
    parameter = torch.nn.Parameter(torch.zeros(4, 4))
    optimizer = Muon([parameter], lr=0.1, weight_decay=0)
    first, second = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    parameter.grad = first.clone()
    optimizer.step()
    before = parameter.detach().clone()
    parameter.grad = second.clone()
    optimizer.step()
    momentum = 0.95 * 0.05 * first + 0.05 * second
    direction = orthogonalise(0.05 * second + 0.95 * momentum)
    assert torch.allclose(parameter, before - 0.1 * 0.4 * direction, atol=1e-4)


def test_a_vector_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3,\); give it to AdamW"):
        Muon([torch.nn.Parameter(torch.zeros(3))])


def test_a_parameter_without_a_gradient_stays():
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    Muon([parameter]).step()
    assert torch.equal(parameter, torch.ones(2, 2))
