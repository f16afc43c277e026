"""`python -m gateway_async.sandbox` is `gateway-async sandbox`, which it does not import."""

import runpy
import sys

sys.argv[1:1] = ["sandbox"]
runpy.run_module("gateway_async", run_name="__main__", alter_sys=True)
