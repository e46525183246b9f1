# A small net with BatchNorm; trained on the first use, which takes half a minute, then cached.
_base_ = ["./runtime.py", "./digits.py"]
model = dict(type="digits_convnet", pretrained=True)
