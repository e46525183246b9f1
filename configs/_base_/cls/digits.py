# The embedded default: scikit-learn's digits, which need no download, enlarged to 32 x 32.
# 20 rounds of six corruptions with four batches each: 480 steps.
data = dict(
    type="digits",
    corruptions=["gaussian_noise", "impulse_noise", "snow", "fog", "contrast", "pixelate"],
    severity=5,
)
# One rule for every method: rate times steps as in the paper's CIFAR-10-C, which takes Adam at 1e-3
# for 20 x 15 x 50 = 15,000 steps. Mean error of TENT on the ConvNet at visits 1 and 20, seed 0:
# 17.9 and 18.1 % at this rate, 18.8 and 19.2 % at 1e-3.
optimizer = dict(type="Adam", lr=3e-2, betas=(0.9, 0.999))
stream = dict(type="csc", rounds=20, batch_size=50)
source = dict(type="digits", num_images=1597)
