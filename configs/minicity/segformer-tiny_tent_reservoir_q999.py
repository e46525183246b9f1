# The paper's quantile, for comparison: on single frames the reservoir stays almost closed.
_base_ = "./segformer-tiny_tent_reservoir.py"
reservoir = dict(calibration=dict(quantile=0.999))
