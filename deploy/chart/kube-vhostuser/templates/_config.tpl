{{/* The daemon's configuration: values.config and what other values add to it. */}}
{{- define "kube-vhostuser.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if ne .Values.kubeletRoot "/var/lib/kubelet" -}}
{{- /* Not its device plugins: their directory is a constant of kubelet's. */}}
{{- $kubelet := dict "podResources" (printf "%s/pod-resources/kubelet.sock" .Values.kubeletRoot) -}}
{{- $_ := set $config "kubelet" (merge (default dict $config.kubelet) $kubelet) -}}
{{- end -}}
{{- if and (default dict $config.events).enabled (not .Values.events.enabled) -}}
{{- fail "config.events.enabled takes a right and a token, which come with the value events.enabled: set that" -}}
{{- end -}}
{{- if .Values.events.enabled -}}
{{- $_ := set $config "events" (merge (dict "enabled" true) (default dict $config.events)) -}}
{{- end -}}
{{- if .Values.statusPage.enabled -}}
{{- $_ := set $config "statusPage" (merge (dict "enabled" true "port" .Values.statusPage.port) (default dict $config.statusPage)) -}}
{{- end -}}
{{- if include "kube-vhostuser.selinux" . -}}
{{- range $config.pools -}}
{{- $_ := set . "directory" (merge (default dict .directory) (dict "selinuxLabel" $.Values.selinux.label)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/*
Directories of the node that the daemon has to see, as a JSON list of {path, type, readOnly, propagation}: each once, and
at the same path as on the node. Defaults are those of src/config/schema.ts; test/integration/chart.test.ts compares.
*/}}
{{- define "kube-vhostuser.directories" -}}
{{- $config := include "kube-vhostuser.config" . | fromYaml -}}
{{- $kubelet := default dict $config.kubelet -}}
{{- $cniSocket := default "/run/kube-vhostuser/cni.sock" $config.cniSocket -}}
{{- $make := "DirectoryOrCreate" -}}
{{- $wanted := list
  (dict "path" (default "/var/run/vhostuser" $config.root) "type" $make "propagation" "HostToContainer")
  (dict "path" (default "/var/lib/kube-vhostuser" $config.recordsDirectory) "type" $make)
  (dict "path" (dir $cniSocket) "type" $make)
  (dict "path" (dir (default $cniSocket $config.statusSocket)) "type" $make)
  (dict "path" (default "/var/run/k8s.cni.cncf.io/devinfo" $config.deviceInfoDirectory) "type" $make)
  (dict "path" (default "/var/lib/kubelet/device-plugins" $kubelet.devicePlugins) "type" "Directory")
  (dict "path" (dir (default "/var/lib/kubelet/pod-resources/kubelet.sock" $kubelet.podResources)) "type" "Directory" "readOnly" true)
-}}
{{- range $config.pools -}}
{{- if eq .dataplane.type "vpp" -}}
{{- $wanted = append $wanted (dict "path" (dir (default "/run/vpp/api.sock" .dataplane.apiSocket)) "type" $make "readOnly" true) -}}
{{- else -}}
{{- $database := default "/var/run/openvswitch/db.sock" .dataplane.database -}}
{{- $wanted = append $wanted (dict "path" (dir $database) "type" $make "readOnly" true) -}}
{{- $wanted = append $wanted (dict "path" (default (dir $database) .dataplane.runDirectory) "type" $make "readOnly" true) -}}
{{- end -}}
{{- end -}}
{{- range .Values.formerSwitchDirectories -}}
{{- $wanted = append $wanted (dict "path" . "type" $make "readOnly" true) -}}
{{- end -}}
{{- $found := dict -}}
{{- $names := dict -}}
{{- $list := list -}}
{{- range $wanted -}}
{{- if not (hasKey $found .path) -}}
{{- $name := .path | trimPrefix "/" | replace "/" "-" | replace "." "-" | replace "_" "-" | lower -}}
{{- /* Two directories may give one name. */}}
{{- if or (gt (len $name) 63) (hasKey $names $name) -}}
{{- $name = printf "%s-%s" ($name | trunc 52 | trimSuffix "-") (.path | sha256sum | trunc 10) -}}
{{- end -}}
{{- $_ := set $names $name true -}}
{{- $list = append $list (set . "name" $name) -}}
{{- $_ := set $found .path true -}}
{{- end -}}
{{- end -}}
{{- toJson $list -}}
{{- end -}}
