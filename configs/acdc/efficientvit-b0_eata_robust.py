_base_ = ["./efficientvit-b0_eata.py", "../_base_/reservoir/robust.py"]
