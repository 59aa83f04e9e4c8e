"""The serving estimate: what an engine does with a model on an accelerator, by a calibration.

``work`` says what a step asks of one device, ``step`` what that takes, ``steady`` what requests see when many of them share
the engine, ``estimate`` puts the question together. The first three take floats for a point and arrays for a sweep.
"""
