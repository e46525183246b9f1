# The embedded default: scikit-learn's digits, which need no download, enlarged to 32 x 32.
# 20 rounds of six corruptions with four batches each: 480 steps.
_base_ = "./runtime.py"
data = dict(
    type="digits",
    corruptions=["gaussian_noise", "impulse_noise", "snow", "fog", "contrast", "pixelate"],
    severity=5,
)
method = dict(optimizer=dict(type="Adam", lr=1e-2, betas=(0.9, 0.999)))
# 200 images per visit are few: a new order each time keeps the batches from repeating.
stream = dict(type="csc", rounds=20, batch_size=50, shuffle="visit")
source_images = dict(type="digits", num_images=1597)
# Styles are taken at half size, a quarter of the time, of whole digits.
with_reservoir = dict(
    preset="robust", style=dict(size=(16, 16), crop=None), calibration=dict(batches=100)
)
