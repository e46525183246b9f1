# A small net with BatchNorm; its weights are in checkpoints/, tools/train_digits.py made them.
_base_ = ["./runtime.py", "./digits.py"]
model = dict(type="digits_convnet", pretrained=True)
