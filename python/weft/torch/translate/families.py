"""All operator families; importing this registers their rules."""

from weft.torch.translate import (  # noqa: F401
    activation,
    attention,
    backward,
    comparison,
    control,
    convolution,
    creation,
    indexing,
    linalg,
    loss,
    movement,
    normalization,
    ordering,
    pointwise,
    pooling,
    randomness,
    reduction,
    resizing,
    views,
)
