"""Quantities of designs that keep several streams: hyper-connections, virtual width networks, AltUp."""

from __future__ import annotations

from depthscope.quantities.quantity import Quantity, Reach
from depthscope.quantities.words import MHC, OURS, TOKENS

_PRODUCT = "P = H_L ... H_l, the product of a token's mixing matrices from this sublayer to the last"


def streams() -> tuple[Quantity, ...]:
    def over_layers(
        name: str,
        label: str,
        long_name: str,
        formula: str,
        *,
        dims: tuple[str, ...] = ("layer",),
        reach: Reach = "stream_layer",
        units: str = "1",
        positive: bool = True,
        source: str = OURS,
        note: str = "",
    ) -> Quantity:
        return Quantity(
            name=name,
            label=label,
            long_name=long_name,
            dims=dims,
            units=units,
            formula=formula,
            reduction=f"mean over {TOKENS}",
            source=source,
            stream="slow",
            reach=reach,
            positive=positive,
            note=note,
        )

    def gains(name: str, label: str, direction: str, sums: str, size: str, axis: str) -> list[Quantity]:
        why = f"{_PRODUCT}. A product of each token's own matrices, never of their means."
        return [
            over_layers(
                f"gain_{name}",
                f"{label} gain",
                f"largest gain of the streams {direction}",
                f"mean_t max_{axis} |{sums}|",
                source=f"{MHC} (Amax gain magnitude of the composite mapping)",
                note=why,
            ),
            over_layers(
                f"gain_{name}_min",
                f"{label} gain, smallest",
                f"smallest gain of the streams {direction}",
                f"mean_t min_{axis} |{sums}|",
                note=f"{why} What a maximum hides: a stream that fades.",
            ),
            over_layers(
                f"gain_{name}_abs",
                f"{label} gain, without signs",
                f"largest gain of the streams {direction}, were all entries positive",
                f"mean_t max_{axis} {size}",
                note=f"{why} Above the gain with signs where entries cancel.",
            ),
        ]

    return (
        over_layers(
            "stream_energy",
            "Stream energy",
            "energy of each stream of the state",
            "mean_t ||s_l^j||^2 / k, s_l^j stream j of the state, of width k",
            dims=("layer", "stream"),
            reach="stream",
            units="activation^2",
        ),
        over_layers(
            "stream_mixing",
            "Stream mixing",
            "weight with which each stream goes into each",
            "mean_t H_ij, in H <- H_l H + what the sublayer writes: as it is applied",
            dims=("layer", "stream_out", "stream_in"),
            reach="stream_pair",
            positive=False,
            note="Hyper-connections: A_r transposed; mHC: H_res.",
        ),
        *gains("forward", "Forward", "on the way to the last sublayer", "sum_j P_ij", "sum_j |P_ij|", "i"),
        *gains(
            "backward", "Backward", "for gradients from the last sublayer", "sum_i P_ij", "sum_i |P_ij|", "j"
        ),
        over_layers(
            "sinkhorn_residue",
            "Sinkhorn residue",
            "how far the mixing matrix is from doubly stochastic",
            "mean_t max over rows and columns |sum - 1| of H_l",
            reach="doubly_stochastic",
            note="What the iterations of Sinkhorn and Knopp leave over; 0 would be a doubly stochastic matrix.",
        ),
    )
