{{/* The daemon's configuration: values.config and what other values add to it. */}}
{{- define "kube-vhostuser.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if ne .Values.kubeletDir "/var/lib/kubelet" -}}
{{- /* Not its device plugins: their directory is a constant of kubelet's. */}}
{{- $kubelet := dict "podResources" (printf "%s/pod-resources/kubelet.sock" .Values.kubeletDir) "plugins" (printf "%s/plugins" .Values.kubeletDir) "pluginsRegistry" (printf "%s/plugins_registry" .Values.kubeletDir) -}}
{{- $_ := set $config "kubelet" (merge (default dict $config.kubelet) $kubelet) -}}
{{- end -}}
{{- if and (default dict $config.events).enabled (not .Values.events.enabled) -}}
{{- fail "config.events.enabled takes a right and a token, which come with the value events.enabled: set that" -}}
{{- end -}}
{{- if .Values.events.enabled -}}
{{- $_ := set $config "events" (merge (dict "enabled" true) (default dict $config.events)) -}}
{{- end -}}
{{- if and (default dict $config.dra).enabled (not .Values.dra.enabled) -}}
{{- fail "config.dra.enabled takes rights and a token, which come with the value dra.enabled: set that" -}}
{{- end -}}
{{- if .Values.dra.enabled -}}
{{- $_ := set $config "dra" (merge (dict "enabled" true) (default dict $config.dra)) -}}
{{- end -}}
{{- $users := dict -}}
{{- range $name, $pool := $config.pools -}}
{{- if and $pool.claims (not $.Values.dra.enabled) -}}
{{- fail (printf "config.pools.%s.claims needs the value dra.enabled" $name) -}}
{{- end -}}
{{- $resource := default "vhostuser/sockets" $pool.resource -}}
{{- if hasKey $users $resource -}}
{{- fail (printf "config.pools: %s and %s both have the resource %s" (get $users $resource) $name $resource) -}}
{{- end -}}
{{- $_ := set $users $resource $name -}}
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
{{- if .Values.dra.enabled -}}
{{- $plugins := default "/var/lib/kubelet/plugins" $kubelet.plugins -}}
{{- $wanted = append $wanted (dict "path" (printf "%s/vhostuser.kube-vhostuser.io" $plugins) "type" $make) -}}
{{- $wanted = append $wanted (dict "path" (default "/var/lib/kubelet/plugins_registry" $kubelet.pluginsRegistry) "type" "Directory") -}}
{{- $wanted = append $wanted (dict "path" (default "/var/run/cdi" $config.dra.cdiDirectory) "type" $make) -}}
{{- end -}}
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
