_base_ = ["./ccc_vit_eata.py", "../../_base_/cls/reservoir.py"]
