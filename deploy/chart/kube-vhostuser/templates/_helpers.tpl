{{- define "kube-vhostuser.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kube-vhostuser.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "kube-vhostuser.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kube-vhostuser.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kube-vhostuser.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kube-vhostuser.labels" -}}
{{ include "kube-vhostuser.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kube-vhostuser.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kube-vhostuser.serviceAccountName" -}}
{{- default (ternary (include "kube-vhostuser.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Not empty if the daemon uses the API server: its container then has a token, and may send to the API server. */}}
{{- define "kube-vhostuser.apiAccess" -}}
{{- if or .Values.events.enabled .Values.dra.enabled -}}true{{- end -}}
{{- end -}}

{{/* Labels and annotations of what `helm test` needs before its pod. */}}
{{- define "kube-vhostuser.testRights" -}}
labels:
  {{- include "kube-vhostuser.labels" . | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-weight: "-1"
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- define "kube-vhostuser.selinux" -}}
{{- if or .Values.selinux.enabled .Values.openshift.enabled -}}true{{- end -}}
{{- end -}}

{{- define "kube-vhostuser.cniBinPath" -}}
{{- default (ternary "/var/lib/cni/bin" "/opt/cni/bin" .Values.openshift.enabled) .Values.cni.binPath -}}
{{- end -}}

{{/* Labels of both IPAM programs' pods. Another name than the daemon's, whose selectors must not find them. */}}
{{- define "kube-vhostuser.ipamPartLabels" -}}
app.kubernetes.io/name: {{ include "kube-vhostuser.name" . | trunc 58 | trimSuffix "-" }}-ipam
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels by which one program's pods are selected: call with (list . "agent"). */}}
{{- define "kube-vhostuser.ipamSelectorLabels" -}}
{{ include "kube-vhostuser.ipamPartLabels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "kube-vhostuser.ipamLabels" -}}
{{- $root := index . 0 -}}
{{ include "kube-vhostuser.ipamSelectorLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What a container sends to the API server with. */}}
{{- define "kube-vhostuser.apiAccessVolume" -}}
- name: api-access
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: { path: token, expirationSeconds: 3600 }
      - configMap: { name: kube-root-ca.crt, items: [{ key: ca.crt, path: ca.crt }] }
{{- end -}}

{{/* Ingress to the metrics' port, egress to the API server and DNS. */}}
{{- define "kube-vhostuser.ipamNetworkPolicySpec" -}}
policyTypes: [Ingress, Egress]
ingress:
  - ports:
      - { port: metrics, protocol: TCP }
    {{- with .Values.networkPolicy.from }}
    from:
      {{- toYaml . | nindent 6 }}
    {{- end }}
egress:
  - ports:
      {{- range .Values.networkPolicy.apiServerPorts }}
      - { port: {{ . }}, protocol: TCP }
      {{- end }}
      - { port: 53, protocol: UDP }
      - { port: 53, protocol: TCP }
{{- end -}}

{{/*
PodMonitor and ServiceMonitor of programs beside the daemon, where they are enabled: call with
(dict "root" . "name" name "selector" labels "port" number).
*/}}
{{- define "kube-vhostuser.programMonitors" -}}
{{- $labels := printf "%s\n%s" .selector (toYaml .root.Values.commonLabels | trimPrefix "{}") | trim -}}
{{- $one := . -}}
{{- with .root.Values.monitoring.podMonitor }}
{{- if .enabled }}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ $one.name }}
  namespace: {{ $one.root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- $one.selector | nindent 6 }}
  podMetricsEndpoints:
    - port: metrics
      interval: {{ .interval }}
      relabelings:
        - { sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node }
{{- end }}
{{- end }}
{{- with .root.Values.monitoring.serviceMonitor }}
{{- if .enabled }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $one.name }}-metrics
  namespace: {{ $one.root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  clusterIP: None
  selector:
    {{- $one.selector | nindent 4 }}
  ports:
    - { name: metrics, port: {{ $one.port }}, targetPort: metrics, protocol: TCP }
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ $one.name }}
  namespace: {{ $one.root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- $one.selector | nindent 6 }}
  endpoints:
    - port: metrics
      interval: {{ .interval }}
      relabelings:
        - { sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node }
{{- end }}
{{- end }}
{{- end -}}

{{/* Labels by which the pods of cni-dra are selected. Another name than the daemon's, whose selectors must not find them. */}}
{{- define "kube-vhostuser.cniDraSelectorLabels" -}}
app.kubernetes.io/name: {{ include "kube-vhostuser.name" . | trunc 55 | trimSuffix "-" }}-cni-dra
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
