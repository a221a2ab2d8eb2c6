/** Where unpacked packages and built images stay between runs. */
export const CACHE_DIRECTORY = "/var/cache/kube-vhostuser-lab";
