"""llama.cpp's server, as `xllamacpp` ships it: called with the port and the file of the weights."""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.port, params.model.path = int(sys.argv[1]), sys.argv[2]
params.hostnames = ["127.0.0.1"]
params.n_parallel, params.n_ctx, params.cache_ram_mib, params.verbosity = 1, 2048, 0, -1
params.ctx_shift = params.warmup = params.ui = params.fit_params = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
