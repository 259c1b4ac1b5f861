"""An independent, plain PyTorch reading of the CAL adapter, built on Hugging Face transformers.

It shares no code with the C++ program, favours reading over speed, and is the oracle behind tests/golden.
"""
