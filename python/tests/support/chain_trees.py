"""Random chains of the link table, three deep, for tests that everything about them round-trips."""
import random

import gradus as gd

REAL, BOOL, STRING, LIST, CHAIN, NONE = 2, 4, 8, 16, 32, 1
SLOW = {"cma_es", "differential_evolution"}  # their states are of whole populations


def number(rng, low, high, whole):
    low, high = max(low, -2.0), min(high, 3.0 if low < 3 else low + 3)
    if whole:
        return rng.randint(int(max(low, 1)), int(max(high, 1, low)))
    return round(rng.uniform(low + 0.05 * (high - low), high - 0.05 * (high - low)), 3)


def value(rng, field, depth):
    _, kinds, needed, _, low, high, whole, choices, variadic, _ = field
    if kinds & CHAIN and depth and (not kinds & REAL or rng.random() < 0.7):
        return f"[{chain(rng, depth - 1)}]"
    if kinds & REAL:
        return str(number(rng, float(low), float(high), whole))
    if kinds & BOOL:
        return rng.choice(["true", "false"])
    if kinds & STRING and choices:
        return f'"{rng.choice(choices.split("|"))}"'
    return "lr(0.5)" if kinds & CHAIN else None


def link(rng, depth):
    """One link with some of its settings; None where a needed one has no value here."""
    name = rng.choice(NAMES)
    fields = gd.link_table(name)["fields"]
    parts = []
    for field in fields:
        if field[8]:  # any number of children, which stand by position: OTHERS has such
            return None
        if field[2] or rng.random() < (0.8 if field[1] & CHAIN and depth else 0.3):
            one = value(rng, field, depth)
            if one is None and field[2]:
                return None
            if one is not None:
                parts.append(f"{field[0]}={one}")
    text = f"{name}({', '.join(parts)})" if parts else name
    try:
        gd.Chain(text)
    except gd.Error:
        return None
    return text


def chain(rng, depth):
    links = []
    while len(links) < rng.choice([1, 2, 2, 3]):
        one = link(rng, depth)
        if one:
            links.append(one)
    return " | ".join(links)


NAMES = [n for n in gd.link_names() if n not in SLOW and not n.startswith("print") and gd.link_table(n)]
EXAMPLES = sorted({gd.link_table(n)["example"] for n in NAMES if gd.link_table(n)["example"]})
OTHERS = ["div([sqrt_ema_squared(0.99) | add(1e-8)]) | lr(0.1)", "add([mul(2) | add(3)]) | mul([add(1) | sub(2)]) | lr(0.1)",
          "online(adam, [mul(0.5) | add(1)]) | add(1) | lr(0.1)", "split(\"*\", [add([mul(3) | sub(1)])], lr(2)) | lr(0.1)",
          "lr(cosine(0.1, 0.01, 9)) | add([lr(linear(1, 0, 4))])"]


def cases(count, seed=1):
    rng = random.Random(seed)
    return OTHERS + EXAMPLES + [chain(rng, 3) for _ in range(count)]
