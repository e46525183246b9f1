_base_ = ["./pacs_resnet50_eata.py", "../../_base_/cls/reservoir.py"]
