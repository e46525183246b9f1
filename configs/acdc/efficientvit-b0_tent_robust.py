_base_ = ["./efficientvit-b0_tent.py", "../_base_/reservoir/robust.py"]
