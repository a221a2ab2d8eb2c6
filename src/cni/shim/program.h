// SPDX-License-Identifier: Apache-2.0
// The two executables that are built of these files: kube-vhostuser for the node daemon, and with IPAM_AGENT defined
// kube-vhostuser-ipam for the IPAM agent, which delegates nothing.
#pragma once

#ifdef IPAM_AGENT
#define PROGRAM "kube-vhostuser-ipam"
#define SERVER "the IPAM agent"
#define SOCKET_PATH "/run/kube-vhostuser/ipam.sock"
#define SOCKET_VARIABLE "KUBE_VHOSTUSER_IPAM_SOCKET"
#else
#define PROGRAM "vhostuser"
#define SERVER "the node daemon"
#define SOCKET_PATH "/run/kube-vhostuser/cni.sock"
#define SOCKET_VARIABLE "KUBE_VHOSTUSER_CNI_SOCKET"
#endif
