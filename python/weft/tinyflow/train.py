"""Update rules, as graphs."""

from __future__ import annotations

from weft.tinyflow.symbol import Symbol, Variable, assign, gradients, group, sqrt, zeros, zeros_like


class GradientDescentOptimizer:
    def __init__(self, learning_rate: float, name: str = "GradientDescent") -> None:
        self.learning_rate, self.name = learning_rate, name

    def minimize(self, loss: Symbol) -> Symbol:
        variables = loss.list_input_variables()
        steps = zip(variables, gradients(loss, variables))
        return group(*[assign(v, v - self.learning_rate * g) for v, g in steps])


class AdamOptimizer:
    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-4,
                 name: str = "Adam") -> None:
        self.learning_rate, self.beta1, self.beta2 = learning_rate, beta1, beta2
        self.epsilon, self.name = epsilon, name

    def minimize(self, loss: Symbol) -> Symbol:
        variables = loss.list_input_variables()
        slopes = gradients(loss, variables)
        # 1 - beta^t as state: the power itself would cancel to 4 digits in the first steps.
        states = ((Variable(zeros([]), f"{self.name}_correction"), beta) for beta in (self.beta1, self.beta2))
        first, second = (assign(v, v * beta + (1 - beta)) for v, beta in states)
        rate = self.learning_rate * sqrt(second) / first
        updates = []
        for i, (v, g) in enumerate(zip(variables, slopes)):
            m, s = (Variable(zeros_like(v), f"{self.name}_{kind}{i}") for kind in "mv")
            mean = assign(m, self.beta1 * m + (1 - self.beta1) * g)
            square = assign(s, self.beta2 * s + (1 - self.beta2) * g * g)
            updates.append(assign(v, v - rate * mean / (sqrt(square) + self.epsilon)))
        return group(*updates)
