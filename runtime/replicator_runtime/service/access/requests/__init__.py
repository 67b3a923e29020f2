"""The rules that every request passes before an operation sees it, as ASGI middleware; `chain.py` has their order."""
